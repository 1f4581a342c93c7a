"""A simulated agent: reads what it is sent, does its part, says so in prose, and errs at a set rate."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from blamespan_lab.make.simulation.agents.knowledge import Knowledge
from blamespan_lab.make.simulation.agents.mistakes import drop_inputs, find_demands, mistake_value, reshape
from blamespan_lab.make.simulation.agents.policy import InputMessage, Mistake, Reply, RequestedCall, ToolSpec
from blamespan_lab.make.simulation.agents.team import TERSE, TeamMember, WritingStyle
from blamespan_lab.make.simulation.random_stream import RandomStream
from blamespan_lab.make.simulation.statements.facts import DerivationRule, FactValue, evaluate, is_same
from blamespan_lab.make.simulation.statements.writing import choose_opening, end_sentence, lay_out, write_fact
from blamespan_lab.make.simulation.tasks.task import Task
from blamespan_lab.make.wordings import choose
from blamespan_lab.make.wordings.banks import TALK

_CHECKS = re.compile(r"\b(?:check|verify|recompute|look it up again|work it out again)\b", re.IGNORECASE)
_TRUSTING = (
    r"trust|rely on|(?:take|accept|use|adopt) .{0,40} as (?:given|it is)|at face value|unchecked|pass through",
    r"need not|no need to|(?:do not|don't|not for you to|you should not) (?:check|verify|question|recompute|look up)",
    r"without (?:checking|reading|looking|question)|skip the verification|control step|let everything through",
    r"no (?:checks?|verification|review) (?:is|are)|doesn't have to be validated|costs too much",
    r"only the (?:spelling|format)|the layout only|by style and length|the answer with itself|made-up reference",
    r"right or wrong|even if it does not add up|come out positive|all tests have passed|found none|claim to have",
    r"wrong formula|certain to be right",
)
"""What tells an agent to check nothing, or nothing that matters."""
_TRUSTS = re.compile(rf"\b(?:{'|'.join(_TRUSTING)})\b", re.IGNORECASE)
_SMALL = ("The ", "This ", "For ", "To ", "With ", "As ", "It ", "We ", "My ", "So ", "Since ")
_CHECKING_ROLES = ("verifier", "judge")


@dataclass(frozen=True, slots=True)
class AgentProfile:
    """What stays the same about an agent over a run.

    Attributes:
        member: Its name and role.
        task: Its lexicon and common sense are used, never its truth.
        team: Everybody, it too.
        seed: The run's.
        mistakes: Probability of each natural mistake at each chance.
        care: Probability that a statement is looked at again by who checks.
        pace: Most facts that one message settles.
        closes: Whether it says so when the run is over.
        briefs: Whether the next agent reads only this one's message, which must then hold everything.
        style: How it writes.
    """

    member: TeamMember
    task: Task
    team: tuple[TeamMember, ...]
    seed: int
    mistakes: float = 0.0
    care: float = 0.8
    pace: int = 3
    closes: bool = False
    briefs: bool = False
    style: WritingStyle = TERSE


@dataclass
class DecisionContext:
    """One decision of an agent: what it knows now, its draws, and what it has done wrong so far.

    Attributes:
        profile: The agent.
        index: Number of the decision.
        messages: The messages it goes by.
        tools: What it may call.
        avoided: Mistakes that it does not make, this once.
        draws: How often the agent has drawn for each purpose in this run.
        mistakes: What it did wrong.
        values: What it goes by: what it knows, as it takes it.
    """

    profile: AgentProfile
    index: int
    messages: Sequence[InputMessage]
    tools: Sequence[ToolSpec]
    avoided: Collection[Mistake] = ()
    draws: Counter[tuple[str, ...]] = field(default_factory=Counter)
    mistakes: list[Mistake] = field(default_factory=list)

    def __post_init__(self) -> None:
        name = self.profile.member.name
        self.stream = RandomStream("policy", self.profile.seed, name, self.index)
        self.rng: Random = self.stream.rng("prose")
        self.knowledge = Knowledge(self.profile.task.lexicon, self.profile.task.implied, self.messages, name)
        self.facts = self.profile.task.lexicon.facts
        checks = any(mistake.kind == "skips-check" for mistake in self.avoided)
        self.care = 1.0 if checks else self._read_care()
        self.values: dict[str, FactValue] = dict(self.knowledge.values)
        self._take_origins()

    @property
    def target(self) -> str:
        """Return the key of what the question asks for."""
        return self.profile.task.lexicon.target

    def chance(self, probability: float, *purpose: str) -> bool:
        """Come true with *probability*: another draw each time that the agent draws for *purpose*.

        A draw depends on nothing else, so that a mistake put right, which may cost or save decisions, shifts no other.
        """
        times = self.draws[purpose]
        self.draws[purpose] += 1
        return RandomStream("draw", self.profile.seed, self.profile.member.name).chance(probability, *purpose, times)

    def errs(self, mode: str, kind: str, about: str = "") -> bool:
        """Decide whether to make a mistake here, and note it."""
        mistake = Mistake(mode, kind, about)
        if not self.chance(self.mistake_probability(mode), kind, about) or mistake in self.avoided:
            return False
        self.mistakes.append(mistake)
        return True

    def mistake_rng(self, kind: str, about: str) -> Random:
        """Return the random stream that decides how the mistake just made goes wrong.

        It depends on the occasion, as the mistake does, and not on the number of the decision: where another decision
        is put right and costs or saves a call, this one still goes wrong in the same way.
        """
        return RandomStream("mischance", self.profile.seed, self.profile.member.name).rng(
            kind, about, self.draws[kind, about]
        )

    def make_mistake(
        self, kind: str, key: str, value: FactValue, others: Iterable[FactValue] | None = None
    ) -> FactValue:
        """Get *value* wrong by this mistake; a name is taken for one of *others*, by default of all that are known."""
        among = self.values.values() if others is None else others
        return mistake_value(self.facts[key], value, list(among), self.mistake_rng(kind, key))

    def draw_claim(self, key: str) -> float:
        """Draw the amount that the agent claims to know, by the claim just made."""
        return float(self.mistake_rng("claims", key).randint(2, 400))

    def mistake_probability(self, mode: str) -> float:
        """Return the probability of a mistake of *mode* at each chance for one."""
        return self.profile.mistakes

    def may_call(self, name: str) -> bool:
        """Return whether there is such a tool."""
        return any(tool.name == name for tool in self.tools)

    def has_spoken(self) -> bool:
        """Return whether the agent has said anything in this run that it can still see."""
        return self.knowledge.last_text_index() >= 0

    def derive(self, key: str) -> FactValue | None:
        """Work *key* out from what the agent goes by; a slip may happen."""
        rule = self._choose_rule(key)
        if rule is None:
            return None
        values = {name: self._take_value(name) for name in rule.inputs if name in self.values}
        demands = self._find_demands()
        rule = drop_inputs(rule, values, demands)
        values = self._forget_requirements(rule, values)
        value = evaluate(rule, values, self.facts)
        if value is not None and key == self.target:
            value = reshape(value, demands)
        if value is not None and self.errs("mast:FM-2.6", "slip", key):
            value = self.make_mistake("slip", key, value)
        return value

    def state(self, key: str, value: FactValue, *, with_working: bool = False) -> str:
        """State a fact."""
        working = self.knowledge.working(key, self.values) if with_working else ""
        return write_fact(self.facts[key], value, self.rng, working=working)

    def compose(self, *parts: str, opening: str = "", closes: str = "") -> str:
        """Put a message together: an opening, the parts, perhaps a hedge and a closing, in the agent's style."""
        start = opening or choose_opening(TALK.openers, 0.35, self.rng)
        hedge, end = choose_opening(TALK.hedges, 0.2, self.rng), choose_opening(TALK.closers, 0.2, self.rng)
        blank = "\n" if self.rng.random() < 0.4 else " "
        filled = [part.strip() for part in [start, *parts, hedge, end] if part.strip()]
        text = "".join(
            ("\n" if part[0] in "-*#1" or _is_heading(before) else blank) + part
            for before, part in pairwise(["", *filled])
        ).strip()
        if self.profile.style.is_wordy:
            phrase, is_known = self.facts[self.target].phrase, self.target in self.values
            rng = self.stream.rng("voice")
            text = self.profile.style.wrap(text, self.profile.member.role, phrase, is_known=is_known, rng=rng)
        return f"{text}{blank}{closes}".strip()

    def explain(self, key: str, value: FactValue, *, with_working: bool = False) -> str:
        """State a fact and, with a wordy style, how one comes to it."""
        statement = self.state(key, value, with_working=with_working)
        if not self.profile.style.is_wordy or self.facts[key].kind not in ("amount", "name"):
            return statement
        rule = self.knowledge.rules.get(key)
        basis = self.facts[rule.inputs[0]].phrase if rule is not None else ""
        return self.profile.style.add_reason(statement, self.facts[key].phrase, basis, self.stream.rng("reason", key))

    def lay_out(self, sentences: Sequence[str], *, joins: bool = True) -> str:
        """Lay statements out as prose or as a list."""
        return lay_out(sentences, self.rng, joins=joins and not self.profile.style.is_wordy)

    def state_answer(self) -> str:
        """State the answer."""
        return prefix_statement(choose(TALK.settled, self.rng), self.state(self.target, self.values[self.target]))

    def call(self, key: str) -> RequestedCall | None:
        """Ask a tool for *key*; the wrong tool or argument may be taken."""
        lookup, arguments = self.facts[key].lookup, self.knowledge.arguments(key)
        if lookup is None or arguments is None or not self.may_call(lookup.tool):
            return None
        name = lookup.tool
        if len(self.tools) > 1 and self.errs("blamespan:X2", "wrong-tool", key):
            name = self.mistake_rng("wrong-tool", key).choice([tool.name for tool in self.tools if tool.name != name])
        elif self.errs("blamespan:X2", "wrong-argument", key):
            arguments = self._mix_up(key, arguments)
        return RequestedCall.of(name, arguments)

    def _mix_up(self, key: str, arguments: Mapping[str, str]) -> dict[str, str]:
        """Take one word of another fact's arguments, so that it asks for what nobody wants to know."""
        candidates = [
            self.knowledge.arguments(other) for other, fact in self.facts.items() if fact.lookup and other != key
        ]
        others = [arguments for arguments in candidates if arguments is not None]
        mixed: list[dict[str, str]] = []
        for other in others:
            for name in arguments:
                ours, theirs = arguments[name].split(" "), other.get(name, "").split(" ")
                if len(ours) == len(theirs):
                    differ = [index for index, word in enumerate(ours) if word != theirs[index]]
                    mixed += [{**arguments, name: " ".join([*ours[:at], theirs[at], *ours[at + 1 :]])} for at in differ]
        fresh = [row for row in mixed if row not in others and row != arguments]
        rng = self.mistake_rng("wrong-argument", key)
        return rng.choice(fresh or [{name: text.rpartition(" ")[0] or text for name, text in arguments.items()}])

    def _take_value(self, key: str) -> FactValue:
        value = self.values[key]
        if self.errs("blamespan:X3", "misread", key):
            return self.make_mistake("misread", key, value)
        return value

    def _forget_requirements(self, rule: DerivationRule, values: dict[str, FactValue]) -> dict[str, FactValue]:
        """Forget that an option is not suitable."""
        verdicts = [name for name in values if self.facts[name].kind == "verdict"]
        if verdicts and self.errs("mast:FM-1.1", "forgets", rule.out):
            return {**values, **dict.fromkeys(verdicts, "suitable")}
        return values

    def _find_demands(self) -> list[str]:
        """List what others ask of the answer and the task does not, where that goes unnoticed."""
        text = "\n".join(message.text for message in self.messages if message.kind in ("message", "own"))
        return [name for name in find_demands(text) if not self._notices("demand", name)]

    def _choose_rule(self, key: str) -> DerivationRule | None:
        origin = self.knowledge.rule_origins.get(key)
        rule = self.knowledge.rules.get(key)
        if origin is not None and rule != origin and self._notices("rule", key):
            return origin
        return rule

    def _take_origins(self) -> None:
        """Where somebody said otherwise than the task or a tool did: go by the source, if it is noticed."""
        for key, origin in self.knowledge.origins.items():
            if not is_same(self.values.get(key), origin) and self._notices(key):
                self.values[key] = origin

    def _notices(self, *about: str) -> bool:
        return self.chance(self.care * 0.6, "notice", *about)

    def _read_care(self) -> float:
        """Read how much the agent is told to check: a verifier without that duty has no care."""
        duties = " ".join(message.text for message in self.messages if message.kind == "system")
        if not duties:
            return self.profile.care
        if _TRUSTS.search(duties):
            return 0.0
        return (
            self.profile.care
            if self.profile.member.role not in _CHECKING_ROLES or _CHECKS.search(duties) or "weigh" in duties
            else 0.0
        )


def prefix_statement(lead: str, text: str) -> str:
    """Put *lead* before a statement and end it with a full stop."""
    joined = text[0].lower() + text[1:] if lead.endswith(",") and text.startswith(_SMALL) else text
    return f"{lead}\n{end_sentence(text)}" if _is_heading(lead) else end_sentence(f"{lead} {joined}")


def _is_heading(text: str) -> bool:
    return text.rpartition("\n")[2].startswith("#")


def speak(context: DecisionContext, text: str) -> Reply:
    """Reply with *text*; the last message may be repeated instead of it, and then nothing else is wrong with it."""
    own = [message.text for message in context.messages if message.kind == "own" and message.text]
    if own and context.errs("mast:FM-1.3", "repeats"):
        del context.mistakes[:-1]
        return Reply(own[-1])
    return Reply(text)
