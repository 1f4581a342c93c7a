"""What every role is made of: asking tools, working out, stating what was found, briefing who comes next."""

from __future__ import annotations

from collections.abc import Mapping

from blamespan_lab.simulation.agents.agent import DecisionContext, prefix_statement, speak
from blamespan_lab.simulation.agents.knowledge import Claim
from blamespan_lab.simulation.agents.policy import Reply, RequestedCall
from blamespan_lab.simulation.statements.facts import Value, is_same
from blamespan_lab.simulation.statements.writing import fill_phrase, write_rule
from blamespan_lab.wordings import choose
from blamespan_lab.wordings.banks import FAULTS, TALK

__all__ = [
    "ask_for_inputs",
    "brief",
    "call_calculator",
    "call_tools",
    "choose_termination_word",
    "derive_facts",
    "is_answer_known",
    "is_implied",
    "list_claims",
    "read_value",
    "report",
    "report_progress",
    "restate_givens",
    "state_lookups",
]


def report(moment: DecisionContext) -> Reply:
    """Give the final answer."""
    if moment.target not in moment.values:
        done = derive_facts(moment, everything=True)
        if moment.target not in done:
            return speak(
                moment,
                moment.composed(ask_for_inputs(moment), closes=choose_termination_word(moment, moment.who.closes)),
            )
    value = read_value(moment, moment.target)
    text = prefix_statement(choose(TALK.finals, moment.rng), moment.says(moment.target, value))
    return speak(moment, moment.composed(text, closes=choose_termination_word(moment, moment.who.closes), opening=" "))


def call_tools(moment: DecisionContext) -> tuple[RequestedCall, ...]:
    """Ask for what is missing, as much as the pace allows; or claim to know some of it, and look no further."""
    if not moment.tools:
        return ()
    keys = [key for key in moment.knowledge.missing() if moment.is_mine(key)][: moment.who.pace]
    made_up = [key for key in keys if _is_callable(moment, key) and moment.errs("blamespan:X1", "claims", key)]
    if made_up:  # a reply that calls says nothing: what is claimed is said at once, and shows
        moment.values.update({key: moment.made_up(key) for key in made_up})
        return ()
    asked = [moment.call(key) for key in keys]
    return tuple(call for call in asked if call is not None)


def list_claims(moment: DecisionContext) -> list[str]:
    """List what the agent claims to know in this decision."""
    return [mistake.about for mistake in moment.mistakes if mistake.kind == "claims"]


def _is_callable(moment: DecisionContext, key: str) -> bool:
    lookup = moment.facts[key].lookup
    return moment.facts[key].kind == "amount" and lookup is not None and moment.may_call(lookup.tool)


def call_calculator(moment: DecisionContext) -> tuple[RequestedCall, ...]:
    """Let the calculator do the next step, now and then."""
    open_keys = moment.knowledge.open_keys()
    if not open_keys or not moment.may_call("calculate"):
        return ()
    key = open_keys[0]
    expression = moment.knowledge.working(key)
    if not expression or moment.knowledge.calls.get(key) or not moment.chance(0.5, "calculate", key):
        return ()
    return (RequestedCall.of("calculate", {"expression": expression.replace("×", "*")}),)  # noqa: RUF001


def derive_facts(
    moment: DecisionContext, *, everything: bool = False, known: Mapping[str, Value] | None = None
) -> dict[str, Value]:
    """Work out what follows, as much as the pace allows."""
    done: dict[str, Value] = {}
    most = 99 if everything else moment.who.pace
    for key in moment.knowledge.needed:
        rule = moment.knowledge.rules.get(key)
        if rule is None or len(done) >= most or not moment.is_mine(key):
            continue
        is_open = (known is not None and key not in known) or key not in moment.values or moment.knowledge.is_stale(key)
        if is_open or any(name in done for name in rule.inputs):
            value = moment.derive(key)
            if value is not None:
                moment.values[key] = done[key] = value
    return done


def is_answer_known(moment: DecisionContext) -> bool:
    """Tell whether the answer is there, and newer than all it rests on or worked out again just now."""
    if moment.target not in moment.values:
        return False
    known = moment.knowledge
    return not known.is_stale(moment.target) or not is_same(
        moment.values[moment.target], known.values.get(moment.target)
    )


def state_lookups(moment: DecisionContext) -> list[str]:
    """State what tools told since the agent last spoke."""
    since = moment.knowledge.last_text_place()
    new = [c.key for c in moment.knowledge.claims if c.place > since and _is_of_tool(c)]
    keys = dict.fromkeys([*new, *moment.knowledge.unsaid()])
    lines = [moment.explains(key, read_value(moment, key)) for key in keys if key in moment.values]
    return lines + [moment.says(key, moment.values[key]) for key in list_claims(moment)]


def _is_of_tool(claim: Claim) -> bool:
    return claim.source == "tool" or claim.speaker == "calculate"


def read_value(moment: DecisionContext, key: str) -> Value:
    """Say a value that is known; it may be misread."""
    value = moment.values[key]
    if moment.facts[key].kind != "code" and moment.errs("blamespan:X3", "misread", key):
        value = moment.values[key] = moment.mistaken("misread", key, value)
    return value


def ask_for_inputs(moment: DecisionContext) -> str:
    """Say what is missing; or give an answer out of thin air."""
    lacking = [k for k in moment.knowledge.needed if k not in moment.values and k not in moment.knowledge.rules]
    key = lacking[0] if lacking else moment.target
    if moment.facts[key].kind == "amount" and moment.errs("blamespan:X1", "claims", key):
        moment.values[key] = moment.made_up(key)
        return moment.says(key, moment.values[key]) + ". " + choose(FAULTS.unsupported, moment.rng)
    return fill_phrase(choose(TALK.asks, moment.rng), moment.facts[key].phrase)


def report_progress(moment: DecisionContext) -> Reply:
    """Say what is open, or that the answer is there."""
    open_keys = [*moment.knowledge.missing(), *moment.knowledge.open_keys()]
    opening = choose(TALK.progress, moment.rng)
    if open_keys:
        return speak(
            moment, moment.composed(f"the {moment.facts[open_keys[0]].phrase}.", brief(moment, []), opening=opening)
        )
    if moment.target in moment.values and moment.knowledge.is_settled():
        return speak(moment, moment.composed(moment.settled()))
    return speak(moment, moment.composed(ask_for_inputs(moment), opening=opening))


def restate_givens(moment: DecisionContext, *, always: bool, share: float) -> str:
    """Say again what the task gives: always, or with a chance of *share*."""
    keys = [key for key in moment.knowledge.needed if key in moment.knowledge.origins]
    if not keys or not (always or moment.chance(share, "restates")):
        return ""
    lines = [
        moment.says(key, read_value(moment, key)) for key in keys if not moment.errs("mast:FM-2.4", "withholds", key)
    ]
    return choose(TALK.restates, moment.rng) + "\n" + moment.listed(lines)


def brief(moment: DecisionContext, told: list[str]) -> str:
    """Tell who comes next all it needs, where it hears nobody else."""
    if not moment.who.briefs or moment.who.member.role == "planner":
        return ""
    known = moment.knowledge
    if is_answer_known(moment) and moment.facts[moment.target].kind != "code":
        return "" if moment.target in told else moment.settled()
    values = [
        moment.says(key, read_value(moment, key)) for key in known.needed if key in moment.values and key not in told
    ]
    rules = [
        write_rule(known.rules[key], moment.facts, moment.who.task.measure, moment.rng)
        for key in known.needed
        if key in known.rules and key not in moment.values and not is_implied(moment, key)
    ]
    return "\n".join([moment.listed(values), moment.listed(rules, joins=False)])


def is_implied(moment: DecisionContext, key: str) -> bool:
    """Tell whether the rule for *key* goes without saying."""
    return any(rule.out == key for rule in moment.who.task.implied)


def choose_termination_word(moment: DecisionContext, closes: bool) -> str:
    """Give a word by which the team ends, where it is for this agent to say it."""
    return moment.rng.choice(TALK.termination_words) if closes else ""
