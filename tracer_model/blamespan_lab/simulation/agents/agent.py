"""A simulated agent: reads what it is sent, does its part, says so in prose, and errs at a set rate."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from blamespan_lab.simulation.agents.knowledge import Knowledge
from blamespan_lab.simulation.agents.mistakes import drop_inputs, find_demands, mistake_value, reshape
from blamespan_lab.simulation.agents.policy import InputMessage, Mistake, Reply, RequestedCall, ToolSpec
from blamespan_lab.simulation.agents.team import TERSE, TeamMember, WritingStyle
from blamespan_lab.simulation.random_stream import RandomStream
from blamespan_lab.simulation.statements.facts import DerivationRule, Value, evaluate, is_same
from blamespan_lab.simulation.statements.writing import choose_opening, end_sentence, lay_out, write_fact
from blamespan_lab.simulation.tasks.task import Task
from blamespan_lab.wordings import choose
from blamespan_lab.wordings.banks import TALK

__all__ = ["AgentProfile", "DecisionContext"]

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
_TEXTS_ON_ROLE = ("verifier", "judge")


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
        briefs: Whether who comes next hears only this agent, and so must be told everything.
        hands_over: Whether it passes the word on with a tool of the framework (`transfer_to_*`).
        part: Which of how many parallel shares of the work is its own.
        voice: How it writes.
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
    hands_over: bool = False
    part: tuple[int, int] = (0, 1)
    voice: WritingStyle = TERSE


@dataclass
class DecisionContext:
    """One decision of an agent: what it knows now, its draws, and what it has done wrong so far.

    Attributes:
        who: The agent.
        index: Number of the decision.
        heard: The messages it goes by.
        tools: What it may call.
        repaired: Mistakes that it does not make, this once.
        draws: How often the agent has drawn for each purpose in this run.
        mistakes: What it did wrong.
        values: What it goes by: what it knows, as it takes it.
    """

    who: AgentProfile
    index: int
    heard: Sequence[InputMessage]
    tools: Sequence[ToolSpec]
    repaired: Collection[Mistake] = ()
    draws: Counter[tuple[str, ...]] = field(default_factory=Counter)
    mistakes: list[Mistake] = field(default_factory=list)

    def __post_init__(self) -> None:
        name = self.who.member.name
        self.dice = RandomStream("policy", self.who.seed, name, self.index)
        self.rng: Random = self.dice.rng("prose")
        self.knowledge = Knowledge(self.who.task.lexicon, self.who.task.implied, self.heard, name)
        self.facts = self.who.task.lexicon.facts
        checks = any(mistake.kind == "skips-check" for mistake in self.repaired)
        self.care = 1.0 if checks else self._told_care()
        self.values: dict[str, Value] = dict(self.knowledge.values)
        self._take_origins()

    @property
    def target(self) -> str:
        """Give the key of what the question asks for."""
        return self.who.task.lexicon.target

    def chance(self, probability: float, *purpose: str) -> bool:
        """Come true with *probability*: another draw each time that the agent draws for *purpose*.

        A draw hangs on nothing else, so that a mistake put right, which may cost or save decisions, shifts no other.
        """
        times = self.draws[purpose]
        self.draws[purpose] += 1
        return RandomStream("draw", self.who.seed, self.who.member.name).chance(probability, *purpose, times)

    def errs(self, mode: str, kind: str, about: str = "") -> bool:
        """Decide whether to make a mistake here, and note it."""
        mistake = Mistake(mode, kind, about)
        if not self.chance(self.prone(mode), kind, about) or mistake in self.repaired:
            return False
        self.mistakes.append(mistake)
        return True

    def mischance(self, kind: str, about: str) -> Random:
        """Give the chance by which the mistake just made goes wrong.

        It hangs on the occasion, as the mistake does, and not on the number of the decision: where another decision is
        put right and costs or saves a call, this one still goes wrong in the same way.
        """
        return RandomStream("mischance", self.who.seed, self.who.member.name).rng(kind, about, self.draws[kind, about])

    def mistaken(self, kind: str, key: str, value: Value, others: Iterable[Value] | None = None) -> Value:
        """Get *value* wrong by the mistake just made; a name is taken for one of *others*, by default of all known."""
        among = self.values.values() if others is None else others
        return mistake_value(self.facts[key], value, list(among), self.mischance(kind, key))

    def made_up(self, key: str) -> float:
        """Give the amount that the agent claims to know, by the claim just made."""
        return float(self.mischance("claims", key).randint(2, 400))

    def prone(self, mode: str) -> float:
        """Give the probability of a mistake of *mode* at each chance for one."""
        return self.who.mistakes

    def is_mine(self, key: str) -> bool:
        """Tell whether *key* is in the agent's share of the work; what follows on what it found itself is its own."""
        mine, shares = self.who.part
        lookup = self.facts[key].lookup
        if shares == 1:
            return True
        if lookup is not None and lookup.needs:
            return set(lookup.needs) <= {claim.key for claim in self.knowledge.claims if claim.source == "tool"}
        alike = [name for name, fact in self.facts.items() if (fact.lookup is None) == (lookup is None)]
        return alike.index(key) % shares == mine

    def may_call(self, name: str) -> bool:
        """Tell whether there is such a tool."""
        return any(tool.name == name for tool in self.tools)

    def has_spoken(self) -> bool:
        """Tell whether the agent has said anything in this run that it can still see."""
        return self.knowledge.last_text_place() >= 0

    def derive(self, key: str) -> Value | None:
        """Work *key* out from what the agent goes by; a slip may happen."""
        rule = self._rule(key)
        if rule is None:
            return None
        known = {name: self._taken(name) for name in rule.inputs if name in self.values}
        demands = self._demands()
        rule = drop_inputs(rule, known, demands)
        rule, known = self._forgetful(rule, known)
        value = evaluate(rule, known, self.facts)
        if value is not None and key == self.target:
            value = reshape(value, demands)
        if value is not None and self.facts[key].kind != "code" and self.errs("mast:FM-2.6", "slip", key):
            value = self.mistaken("slip", key, value)
        return value

    def says(self, key: str, value: Value, *, with_working: bool = False) -> str:
        """State a fact."""
        working = self.knowledge.working(key, self.values) if with_working else ""
        return write_fact(self.facts[key], value, self.rng, working=working, phrase=self._other_name(key))

    def composed(self, *parts: str, opening: str = "", closes: str = "") -> str:
        """Put a message together: an opening, the parts, perhaps a hedge and a closing, in the agent's voice."""
        start = opening or choose_opening(TALK.openers, 0.35, self.rng)
        hedge, end = choose_opening(TALK.hedges, 0.2, self.rng), choose_opening(TALK.closers, 0.2, self.rng)
        blank = "\n" if self.rng.random() < 0.4 else " "
        said = [part.strip() for part in [start, *parts, hedge, end] if part.strip()]
        text = "".join(
            ("\n" if part[0] in "-*#1`" or "```" in before or _is_heading(before) else blank) + part
            for before, part in pairwise(["", *said])
        ).strip()
        if self.who.voice.is_wordy:
            phrase, is_known = self.facts[self.target].phrase, self.target in self.values
            rng = self.dice.rng("voice")
            text = self.who.voice.around(text, self.who.member.role, phrase, is_known=is_known, rng=rng)
        return f"{text}{blank}{closes}".strip()

    def explains(self, key: str, value: Value, *, with_working: bool = False) -> str:
        """State a fact and, with a wordy voice, how one comes to it."""
        said = self.says(key, value, with_working=with_working)
        if not self.who.voice.is_wordy or self.facts[key].kind not in ("amount", "name"):
            return said
        rule = self.knowledge.rules.get(key)
        given = self.facts[rule.inputs[0]].phrase if rule is not None else ""
        return self.who.voice.reasoned(said, self.facts[key].phrase, given, self.dice.rng("reason", key))

    def listed(self, sentences: Sequence[str], *, joins: bool = True) -> str:
        """Lay statements out as prose or as a list."""
        return lay_out(sentences, self.rng, joins=joins and not self.who.voice.is_wordy)

    def settled(self) -> str:
        """State the answer."""
        return prefix_statement(choose(TALK.settled, self.rng), self.says(self.target, self.values[self.target]))

    def call(self, key: str) -> RequestedCall | None:
        """Ask a tool for *key*; the wrong tool or argument may be taken."""
        lookup, arguments = self.facts[key].lookup, self.knowledge.arguments(key)
        if lookup is None or arguments is None or not self.may_call(lookup.tool):
            return None
        name = lookup.tool
        if len(self.tools) > 1 and self.errs("blamespan:X2", "wrong-tool", key):
            name = self.mischance("wrong-tool", key).choice([tool.name for tool in self.tools if tool.name != name])
        elif self.errs("blamespan:X2", "wrong-argument", key):
            arguments = self._mixed_up(key, arguments)
        return RequestedCall.of(name, arguments)

    def _mixed_up(self, key: str, arguments: Mapping[str, str]) -> dict[str, str]:
        """Take one word of another fact's arguments, so that it asks for what nobody wants to know."""
        asked = [self.knowledge.arguments(other) for other, fact in self.facts.items() if fact.lookup and other != key]
        known = [other for other in asked if other is not None]
        made: list[dict[str, str]] = []
        for other in known:
            for name in arguments:
                ours, theirs = arguments[name].split(" "), other.get(name, "").split(" ")
                if len(ours) == len(theirs):
                    differ = [place for place, word in enumerate(ours) if word != theirs[place]]
                    made += [{**arguments, name: " ".join([*ours[:at], theirs[at], *ours[at + 1 :]])} for at in differ]
        fresh = [each for each in made if each not in known and each != arguments]
        rng = self.mischance("wrong-argument", key)
        return rng.choice(fresh or [{name: text.rpartition(" ")[0] or text for name, text in arguments.items()}])

    def _taken(self, key: str) -> Value:
        value = self.values[key]
        if self.facts[key].kind != "code" and self.errs("blamespan:X3", "misread", key):
            return self.mistaken("misread", key, value)
        return value

    def _forgetful(self, rule: DerivationRule, known: dict[str, Value]) -> tuple[DerivationRule, dict[str, Value]]:
        """Forget a requirement, or that an option is not suitable."""
        if rule.operation.startswith("implement:"):
            forgotten = [name for name in rule.inputs if self.errs("mast:FM-1.1", "forgets", name)]
            return rule, {name: value for name, value in known.items() if name not in forgotten}
        verdicts = [name for name in known if self.facts[name].kind == "verdict"]
        if verdicts and self.errs("mast:FM-1.1", "forgets", rule.out):
            return rule, {**known, **dict.fromkeys(verdicts, "suitable")}
        return rule, known

    def _demands(self) -> list[str]:
        """List what others ask of the answer and the task does not, where that goes unnoticed."""
        said = "\n".join(message.text for message in self.heard if message.kind in ("message", "own"))
        return [name for name in find_demands(said) if not self._notices("demand", name)]

    def _rule(self, key: str) -> DerivationRule | None:
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

    def _told_care(self) -> float:
        """Read how much the agent is told to check: a verifier without that duty has no care."""
        told = " ".join(message.text for message in self.heard if message.kind == "system")
        if not told:
            return self.who.care
        if _TRUSTS.search(told):
            return 0.0
        return (
            self.who.care
            if self.who.member.role not in _TEXTS_ON_ROLE or _CHECKS.search(told) or "weigh" in told
            else 0.0
        )

    def _other_name(self, key: str) -> str:
        """Call a fact by the names it goes by, now and then."""
        fact = self.facts[key]
        if not fact.by_name or self.who.briefs or self.rng.random() < 0.5:
            return ""
        try:
            return fact.by_name.format_map(self.values)
        except KeyError:
            return ""


def prefix_statement(lead: str, text: str) -> str:
    """Put *lead* before a statement and end it with a full stop."""
    if text.startswith("```"):
        return f"{lead.rstrip(',:')}:\n{text}" if lead.endswith((",", ":")) else f"{lead}\n{text}".strip()
    joined = text[0].lower() + text[1:] if lead.endswith(",") and text.startswith(_SMALL) else text
    return f"{lead}\n{end_sentence(text)}" if _is_heading(lead) else end_sentence(f"{lead} {joined}")


def _is_heading(text: str) -> bool:
    return text.rpartition("\n")[2].startswith("#")


def speak(moment: DecisionContext, text: str) -> Reply:
    """Reply with *text*; the last message may be repeated instead of it, and then nothing else is wrong with it."""
    own = [message.text for message in moment.heard if message.kind == "own" and message.text]
    if own and moment.errs("mast:FM-1.3", "repeats"):
        del moment.mistakes[:-1]
        return Reply(own[-1])
    return Reply(text)
