"""What is usual for each agent of a team, as its sound runs show, and checks that say where a run leaves it.

No label is needed. What an agent did in all of 20 sound runs or more is expected of the next run: that it acts, calls a
tool, speaks of a check, gives a field, comes before another, writes at least so much. A kind of habit that one sound
run alone breaks is not expected of that agent: the share of runs that break what all others keep estimates how many
of the next will (Good, "The population frequencies of species", 1953).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby, permutations
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from blamespan.errors import TracerUnavailable
from blamespan.learnt_files import USUAL_COURSE_FILE
from blamespan.taxonomy import mode
from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.checks.check import Check, ExaminedRun, Finding
from blamespan_tracer.heads import list_agents, load_in_use
from blamespan_tracer.tokens import split_sentences

FEWEST_RUNS: Final = 20
"""Sound runs that show what is usual: what all of 20 did, the next does with a probability of 0.95."""

MOST_EXCEPTIONS: Final = 0.01
"""Share of the sound runs that may break a habit, and that may be the only one to break one of a kind."""

PREFIX: Final = "usual-"
"""Of the names of the checks."""

_FORMAT: Final = "blamespan-usual-1"
_TRUST = 0.9
_MOST_FIELDS = 30
_MOST_CHARS = 20_000
_MOST_TURNS = 3
"""Turns of an agent whose lengths are told apart; later ones count as the last of these."""
_SHORTER = 0.5
"""A message is short if it has less than this share of what the shortest of sound runs has."""
_LACKING = 1 / 3
"""A message is another one if it lacks more than this share of the words that it always has."""
_FEWEST_WORDS = 4
_MOST_NAMED = 4

Kind: TypeAlias = Literal["turns", "checking", "tools", "content", "order"]
Measure: TypeAlias = Literal["characters", "numbers"]
Key: TypeAlias = tuple[str, str]
"""An agent, and what it does: `acts`, `speaks`, `checks`, `calls TOOL`, `gives FIELD`, `ends`; or what all that it does
is like: `closes` its sentences, `gets TOOL` to answer, `knows TOOL`: passes what was said before."""

_CHECKING = re.compile(r"(?i)\b(?:verif|check|confirm|validat|compar|test(?:ed|ing|s)?\b)")
_CHECKING_TOOL = re.compile(r"(?i)verif|check|confirm|validat|compar|test|lint|review|audit|approv")
_FIELD = re.compile(
    r"(?:^|[.;,\n]\s*|[-*]\s+)\**([A-Z][A-Za-z][A-Za-z ]{0,22}?)\**:(?=\s+[^\s.,;])|\"(\w{2,24})\"\s*:", re.MULTILINE
)
_CLOSING = tuple(".!?:)]}`\"'")
_VALUE = re.compile(r":\s*\"([^\"]*)\"|:\s*(-?[\d.]+)")
_TOKEN = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"[^\W\d_]{3,}")


@dataclass(frozen=True, slots=True)
class Habit:
    """What an agent does in every sound run.

    Attributes:
        kind: Which check it belongs to.
        agent: Whose.
        deed: What it does, see `Key`.
        runs: How many sound runs show it, and
        of: of how many that could: all, but for `MOST_EXCEPTIONS`.
        given: Who does what, where it is usual only then; None where it is usual in every run.
        comes: Whether it comes before or after what is *given*.
        least: How many of what is counted the message has at least; 0 where that is no question.
        counts: What is counted: characters, or numbers.
        words: What the message says in every sound run; empty where that is no question.
        turn: At which of the agent's own messages it is usual.
        follows: Who usually acts before the agent does; empty for nobody.
    """

    kind: Kind
    agent: str
    deed: str
    runs: int
    of: int
    given: Key | None = None
    comes: Literal["before", "after"] = "after"
    least: int = 0
    counts: Measure = "characters"
    words: tuple[str, ...] = ()
    turn: int = 0
    follows: str = ""


@dataclass(frozen=True, slots=True)
class UsualCourse:
    """What is usual in the runs of one team.

    Attributes:
        agents: Who decides anything in them.
        tools: What they call.
        runs: How many sound runs show it.
        habits: What is usual.
    """

    agents: tuple[str, ...]
    tools: tuple[str, ...]
    runs: int
    habits: tuple[Habit, ...]

    def find(self, run: ExaminedRun, kind: Kind) -> Iterator[Finding]:
        """Yield each step at which a run leaves the course, with the first habit that it breaks there.

        Of a run with agents, or tools, that sound runs never had, nothing is said.
        """
        by_step: dict[int, list[Finding]] = defaultdict(list)
        for finding in self._find_all(run, kind):
            by_step[finding.step].append(finding)
        for first, *others in by_step.values():
            more = f" (and {len(others)} more)" if others else ""
            yield replace(first, reason=f"{first.reason}{more}")

    def _find_all(self, run: ExaminedRun, kind: Kind) -> Iterator[Finding]:
        deeds = run.once(_Deeds.read)
        if not deeds.decisions or not (set(self.agents) >= set(deeds.agents) and set(self.tools) >= set(deeds.tools)):
            return
        seen: set[Key] = set()
        always = {(habit.agent, habit.deed) for habit in self.habits if habit.given is None}
        for habit in self.habits:
            key = habit.agent, f"{habit.deed} {habit.counts if habit.least else ''}{' '.join(habit.words)}"
            if habit.kind != kind or key in seen or (habit.deed != "acts" and habit.agent not in deeds.agents):
                continue
            if (
                habit.given is not None
                and (habit.agent, habit.deed) in always
                and (habit.agent, habit.deed) not in deeds.first
            ):
                continue  # another check says that it is missing at all
            is_of_message = habit.least or habit.words
            broken = _find_other_message(habit, deeds) if is_of_message else _find_missing(habit, deeds)
            if broken is not None:
                seen.add(key)
                yield broken

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> UsualCourse:
        """Read what `asdict` wrote."""
        habits = [
            Habit(**{**habit, "given": habit["given"] and tuple(habit["given"]), "words": tuple(habit["words"])})
            for habit in record["habits"]
        ]
        if unknown := {habit.kind for habit in habits} - set(get_args(Kind)):
            raise ValueError(f"habits of another version: {sorted(unknown)}")
        return cls(tuple(record["agents"]), tuple(record["tools"]), int(record["runs"]), tuple(habits))


@dataclass(frozen=True, slots=True)
class UsualCourses:
    """The usual courses of the teams of one user.

    Attributes:
        teams: One for each.
        digest: Of the file; empty where there is none.
        figures: What was counted when they were learnt.
        is_better: They are always in use.
    """

    teams: tuple[UsualCourse, ...]
    digest: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)
    is_better: bool = True

    def course_of(self, trace: MessageActionTrace) -> UsualCourse | None:
        """Return the course of the smallest team that has all agents of a run; None where no team has."""
        agents = set(list_agents(trace))
        fitting = [team for team in self.teams if agents and agents <= set(team.agents)]
        return min(fitting, key=lambda team: len(team.agents), default=None)

    def checks(self) -> tuple[Check, ...]:
        """Return the checks that say where a run leaves the usual course of its team."""
        if not self.teams:
            return ()
        return tuple(
            Check(f"{PREFIX}{kind}", title, self._examine(kind), mode(code), trust=_TRUST)
            for kind, (title, code) in _CHECKS.items()
        )

    def _examine(self, kind: Kind) -> Callable[[ExaminedRun], Iterator[Finding]]:
        def examine(run: ExaminedRun) -> Iterator[Finding]:
            course = self.course_of(run.trace)
            return iter(()) if course is None else course.find(run, kind)

        return examine

    def adding(self, others: UsualCourses) -> UsualCourses:
        """Return these with those of other teams; a course takes the place of that of the same agents."""
        fresh = {team.agents for team in others.teams}
        return UsualCourses((*(team for team in self.teams if team.agents not in fresh), *others.teams))

    def save(self, path: Path) -> None:
        """Write the file."""
        path.write_text(json.dumps({"format": _FORMAT, "teams": [asdict(team) for team in self.teams]}, indent=1))

    @classmethod
    def load(cls, path: Path) -> UsualCourses:
        """Read a file that `save` wrote.

        Raises:
            TracerUnavailable: if it is missing, damaged or of another version.
        """
        try:
            content = path.read_bytes()
            record = json.loads(content)
            if record["format"] != _FORMAT:
                raise ValueError(f"the format {record['format']!r}")
            teams = tuple(map(UsualCourse.from_json, record["teams"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise TracerUnavailable(
                f"expected the usual course of a team in {str(path)!r}, got {error!r}. Learn it again: blamespan learn"
            ) from error
        figures = {"teams": [{"agents": list(team.agents), "runs": team.runs} for team in teams]}
        return cls(teams, hashlib.sha256(content).hexdigest()[:12], figures)


_CHECKS: Final[Mapping[Kind, tuple[str, str]]] = {
    "turns": ("Who acts in every sound run acts.", "mast:FM-3.1"),
    "checking": ("What is checked in every sound run is checked.", "mast:FM-3.2"),
    "tools": ("A tool that is called in every sound run is called.", "mast:FM-1.2"),
    "content": ("A message says as much as it does in sound runs.", "mast:FM-2.4"),
    "order": ("Steps come in the order of sound runs.", "mast:FM-1.2"),
}


def usual_courses_in_use() -> UsualCourses | None:
    """Load the courses that `BLAMESPAN_LEARNT` names, else those beside the store; None where there are none.

    Raises:
        TracerUnavailable: if the file that is named is missing or damaged.
    """
    return next(iter(load_in_use(USUAL_COURSE_FILE, UsualCourses.load)), None)


def learn_usual_course(traces: Iterable[MessageActionTrace]) -> UsualCourse | None:
    """Learn what is usual from sound runs of one team; None where they are fewer than `FEWEST_RUNS`."""
    runs = [_Deeds.read(ExaminedRun(trace)) for trace in traces]
    runs = [run for run in runs if run.decisions]
    if len(runs) < FEWEST_RUNS:
        return None
    candidates = [*_presence(runs), *_messages(runs), *_order(runs)]
    lonely: dict[tuple[Kind, str], set[int]] = defaultdict(set)
    for habit, exceptions, n in candidates:
        if len(exceptions) == _most_exceptions(n) + 1:
            lonely[habit.kind, habit.agent] |= exceptions
    return UsualCourse(
        tuple(sorted({agent for run in runs for agent in run.agents})),
        tuple(sorted({tool for run in runs for tool in run.tools})),
        len(runs),
        tuple(
            habit
            for habit, exceptions, n in candidates
            if len(exceptions) <= _most_exceptions(n)
            and len(lonely[habit.kind, habit.agent]) <= _most_exceptions(len(runs))
        ),
    )


def learn_usual_courses(traces: Iterable[MessageActionTrace]) -> UsualCourses:
    """Learn what is usual in each team that has `FEWEST_RUNS` sound runs or more."""
    learnt = [learn_usual_course(runs) for runs in split_by_team(traces)]
    return UsualCourses(tuple(course for course in learnt if course is not None))


def split_by_team(traces: Iterable[MessageActionTrace]) -> list[list[MessageActionTrace]]:
    """Split runs by team: a run belongs to the largest team that has all agents who act in it."""
    by_agents: dict[frozenset[str], list[MessageActionTrace]] = defaultdict(list)
    for trace in traces:
        by_agents[frozenset(list_agents(trace))].append(trace)
    teams: dict[frozenset[str], list[MessageActionTrace]] = {}
    for agents, runs in sorted(by_agents.items(), key=lambda item: -len(item[0])):
        team = next((team for team in teams if agents <= team), agents)
        teams.setdefault(team, []).extend(runs)
    return list(teams.values())


def _most_exceptions(runs: int) -> int:
    return int(MOST_EXCEPTIONS * runs)


@dataclass(frozen=True, slots=True)
class _Deeds:
    """What the agents of one run do, and when.

    Attributes:
        steps: All of the run.
        decisions: Those that an agent decides, announcements of calls left out.
        first: The first step at which each key is seen, and
        last: the last.
        broken: The first step that is not like what its agent else does.
        agents: Who acts, in the order of their first step.
        tools: What is called.
    """

    steps: tuple[Step, ...]
    decisions: tuple[Step, ...]
    first: Mapping[Key, int]
    last: Mapping[Key, int]
    broken: Mapping[Key, int]
    agents: tuple[str, ...]
    tools: tuple[str, ...]

    @classmethod
    def read(cls, run: ExaminedRun) -> _Deeds:
        """Read a run."""
        decisions = tuple(step for step in run.decisions if not _announces(step, run.trace))
        first: dict[Key, int] = {}
        last: dict[Key, int] = {}
        broken: dict[Key, int] = {}
        said = _first_said(run.trace)
        for step in decisions:
            for deed in _deeds_of(step, run):
                first.setdefault((step.agent, deed), step.index)
                last[step.agent, deed] = step.index
            for deed, holds in _manners_of(step, run, said):
                if not holds:
                    broken.setdefault((step.agent, deed), _first_shown(step, run.trace))
                elif (step.agent, deed) not in broken:
                    first.setdefault((step.agent, deed), step.index)
                    last[step.agent, deed] = step.index
        for key in broken:
            first.pop(key, None)
            last.pop(key, None)
        if decisions:
            end = decisions[-1]
            first[end.agent, "ends"] = last[end.agent, "ends"] = end.index
        agents = tuple(dict.fromkeys(step.agent for step in decisions))
        tools = tuple(dict.fromkeys(run.tool_of(step) for step in decisions if step.kind == "tool_call"))
        return cls(run.trace.steps, decisions, first, last, broken, agents, tools)

    def messages(self, agent: str) -> list[Step]:
        """List what an agent says."""
        return [step for step in self.decisions if step.agent == agent and step.kind != "tool_call"]

    def agent_before(self, agent: str) -> str:
        """Return who acts before an agent's first step."""
        index = self.agents.index(agent)
        return self.agents[index - 1] if index else ""


def _announces(step: Step, trace: MessageActionTrace) -> bool:
    """Check whether a message only shows the call that follows it, as LangGraph's do."""
    following = trace.steps[step.index + 1 : step.index + 2]
    return step.kind == "message" and any(
        other.kind == "tool_call" and other.agent == step.agent and other.content in step.content for other in following
    )


def _first_shown(step: Step, trace: MessageActionTrace) -> int:
    """Return the step that shows a call first: the message that announces it, where one does."""
    if step.kind != "tool_call":
        return step.index
    own = (trace.steps[index] for index in step.inputs if trace.steps[index].agent == step.agent)
    return next((one.index for one in own if step.content in one.content), step.index)


def _deeds_of(step: Step, run: ExaminedRun) -> Iterator[str]:
    yield "acts"
    if step.kind == "tool_call":
        yield f"calls {run.tool_of(step)}"
        return
    yield "speaks"
    text = step.content[:_MOST_CHARS]
    if _CHECKING.search(text):
        yield "checks"
    names = dict.fromkeys(next(filter(None, match.groups())) for match in _FIELD.finditer(text))
    yield from (f"gives {name}" for name in list(names)[:_MOST_FIELDS])


def _manners_of(step: Step, run: ExaminedRun, said: Mapping[str, int]) -> Iterator[tuple[str, bool]]:
    """Yield what a step may be like, and whether it is."""
    if step.kind != "tool_call":
        yield "closes", step.content.rstrip()[-1:] in _CLOSING
        return
    tool, results = run.tool_of(step), run.results_of.get(step.index, [])
    if results:
        yield f"gets {tool}", all(one.content.strip() and not run.is_error(one) for one in results)
    arguments = step.content.partition("(")[2]
    words = {word.lower() for value in _VALUE.findall(arguments) for part in value for word in _TOKEN.findall(part)}
    yield f"knows {tool}", all(said.get(word, step.index) < step.index for word in words)


def _first_said(trace: MessageActionTrace) -> dict[str, int]:
    """Return after which step each word is known: -1 for those of the task; announcements of calls tell nothing."""
    known = {word.lower(): -1 for word in _TOKEN.findall(trace.task[:_MOST_CHARS])}
    for step in trace.steps:
        said = "" if step.kind == "tool_call" or _announces(step, trace) else step.content
        for index, text in ((step.index - 1, step.input_text), (step.index, said)):
            for word in _TOKEN.findall(text[:_MOST_CHARS]):
                known.setdefault(word.lower(), index)
    return known


def _kind_of(deed: str) -> Kind:
    if deed in ("acts", "speaks", "ends"):
        return "turns"
    if deed.startswith(("gets ", "knows ")):
        return "tools"
    if deed == "checks" or (deed.startswith("calls ") and _CHECKING_TOOL.search(deed)):
        return "checking"
    return "tools" if deed.startswith("calls ") else "content"


_Candidate: TypeAlias = tuple[Habit, set[int], int]
"""A habit, the numbers of the runs that break it, and of how many that could."""


def _presence(runs: Sequence[_Deeds]) -> Iterator[_Candidate]:
    """Yield what every run has, who acts before all else: what an agent that does not act lacks is no news."""
    keys = dict.fromkeys(key for run in runs for key in run.first)
    for agent, deed in sorted(keys, key=lambda key: key[1] != "acts"):
        key, is_manner = (agent, deed), _is_manner(deed)
        able = [n for n, run in enumerate(runs) if not is_manner or key in run.first or key in run.broken]
        exceptions = {number for number in able if key not in runs[number].first}
        if len(able) < FEWEST_RUNS or len(exceptions) > _most_exceptions(len(able)) + 1:
            continue
        having = [runs[number] for number in able if number not in exceptions]
        turn = Counter(_turn_of(run, agent, run.first[key]) for run in having).most_common(1)[0][0]
        follows = Counter(run.agent_before(agent) for run in having).most_common(1)[0][0]
        habit = Habit(_kind_of(deed), agent, deed, len(having), len(able), turn=turn, follows=follows)
        yield habit, exceptions, len(able)


def _is_manner(deed: str) -> bool:
    return deed.partition(" ")[0] in ("closes", "gets", "knows")


def _turn_of(run: _Deeds, agent: str, step: int) -> int:
    return sum(message.index < step for message in run.messages(agent))


def _messages(runs: Sequence[_Deeds]) -> Iterator[_Candidate]:
    """Yield how long each message of an agent is at least, and what it always says."""
    texts: dict[tuple[str, int], dict[int, str]] = defaultdict(dict)
    for number, run in enumerate(runs):
        for agent in run.agents:
            for turn, step in enumerate(run.messages(agent)[:_MOST_TURNS]):
                texts[agent, turn][number] = step.content
    for (agent, turn), of_runs in texts.items():
        n = len(of_runs)
        if n < FEWEST_RUNS:
            continue
        for counts in get_args(Measure):
            sizes = {number: _count(text, counts) for number, text in of_runs.items()}
            smallest, next_one, *_ = sorted(sizes, key=lambda number: sizes[number])
            least = sizes[smallest]
            exceptions = {smallest} if least < _SHORTER * sizes[next_one] else set()
            if least:
                yield Habit("content", agent, "speaks", n, n, least=least, counts=counts, turn=turn), exceptions, n
        spoken = {number: _words(text) for number, text in of_runs.items()}
        having = Counter(word for words in spoken.values() for word in words)
        usual = tuple(sorted(word for word, count in having.items() if count >= n - _most_exceptions(n)))
        exceptions = {
            number
            for number, words in spoken.items()
            if _lacks({word for word, count in having.items() if count - (word in words) >= n - 1}, words)
        }
        if len(usual) >= _FEWEST_WORDS:
            yield Habit("content", agent, "speaks", n, n, words=usual, turn=turn), exceptions, n


def _count(text: str, what: Measure) -> int:
    return len(text) if what == "characters" else len(_NUMBER.findall(text[:_MOST_CHARS]))


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text[:_MOST_CHARS]))


def _lacks(usual: Set[str], words: Set[str]) -> bool:
    """Check whether a message lacks more than a third of the words that it usually has."""
    return len(usual - words) > len(usual) * _LACKING


def _order(runs: Sequence[_Deeds]) -> Iterator[_Candidate]:
    """Yield what always comes before, or after, what; fields of messages have no order."""
    counts = Counter(key for run in runs for key in run.first if not _is_manner(key[1]))
    of_steps = [key for key in counts if key[1] not in ("acts", "ends") and not key[1].startswith("gives ")]
    keys = [key for key in of_steps if counts[key] >= FEWEST_RUNS]
    for given, key in permutations(keys, 2):
        having = [number for number, run in enumerate(runs) if given in run.first]
        before = {n for n in having if not runs[n].first.get(key, len(runs[n].decisions) * 99) < runs[n].first[given]}
        after = {n for n in having if not runs[n].last.get(key, -1) > runs[n].last[given]}
        for comes, exceptions in (("before", before), ("after", after)):
            if len(exceptions) <= _most_exceptions(len(having)) + 1:
                yield (
                    Habit("order", *key, len(having) - len(exceptions), len(having), given=given, comes=comes),  # type: ignore[arg-type]
                    exceptions,
                    len(having),
                )


def _find_other_message(habit: Habit, deeds: _Deeds) -> Finding | None:
    messages = deeds.messages(habit.agent)
    if habit.turn >= len(messages):
        return None
    step, among = messages[habit.turn], f"{habit.runs} of {habit.of} sound runs"
    size, words = _count(step.content, habit.counts), _words(step.content)
    if habit.least and size < _SHORTER * habit.least:
        reason = f"{habit.agent} wrote {size} {habit.counts}; {among} have at least {habit.least}"
    elif habit.words and _lacks(set(habit.words), words):
        lacking = [word for word in habit.words if word not in words]
        named = ", ".join(lacking[:_MOST_NAMED])
        reason = f"{habit.agent} lacks {len(lacking)} of {len(habit.words)} words that {among} have: {named}"
    else:
        return None
    return Finding(step.index, "fail", _quote(step), reason)


def _find_missing(habit: Habit, deeds: _Deeds) -> Finding | None:
    """Find the step at which a run lacks what is usual: the agent's own, or the one that went on without it."""
    key, given = (habit.agent, habit.deed), habit.given
    if given is None:
        if key in deeds.first or (_is_manner(habit.deed) and key not in deeds.broken):
            return None
        step, when = _usual_place(habit, deeds), ""
    elif given not in deeds.first:
        return None
    elif habit.comes == "before":
        step, when = deeds.steps[deeds.first[given]], f" before {_describe(*given)}"
        if deeds.first.get(key, step.index) < step.index:
            return None
    else:
        if deeds.last.get(key, -1) > deeds.last[given]:
            return None
        later = [step for step in deeds.decisions if step.agent == habit.agent and step.index > deeds.last[given]]
        step, when = later[0] if later else deeds.decisions[-1], f" after {_describe(*given)}"
    lacking = f"{_describe(*key)} is missing{when}"
    return Finding(step.index, "fail", _quote(step), f"{lacking}; {habit.runs} of {habit.of} sound runs have it")


def _usual_place(habit: Habit, deeds: _Deeds) -> Step:
    if (habit.agent, habit.deed) in deeds.broken:
        return deeds.steps[deeds.broken[habit.agent, habit.deed]]
    own = [step for step in deeds.decisions if step.agent == habit.agent]
    if not own:
        by_turn = groupby(deeds.decisions, lambda step: step.agent)
        turns = (list(steps) for agent, steps in by_turn if agent == habit.follows)
        return next(turns, list(deeds.decisions))[-1]
    if habit.deed == "ends":
        return deeds.decisions[-1]
    messages = deeds.messages(habit.agent)
    return own[0] if habit.deed.startswith("calls ") or not messages else messages[min(habit.turn, len(messages) - 1)]


def _describe(agent: str, deed: str) -> str:
    verb, _, what = deed.partition(" ")
    return {
        "acts": f"any step of {agent}",
        "speaks": f"a message of {agent}",
        "ends": f"a last word of {agent}",
        "checks": f"a check by {agent}",
        "calls": f"a call of {what} by {agent}",
        "gives": f"{what!r} from {agent}",
        "closes": f"the end of a sentence of {agent}",
        "gets": f"an answer of {what} to {agent}",
        "knows": f"a source of what {agent} passes to {what}",
    }[verb]


def _quote(step: Step) -> str:
    """Return the last sentence of a step: what it ends on instead."""
    parts = list(split_sentences(step.content[-_MOST_CHARS:]))
    return parts[-1] if parts else ""
