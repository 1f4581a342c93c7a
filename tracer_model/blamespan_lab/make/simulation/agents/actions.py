"""What every role is made of: asking tools, working out, stating what was found, briefing who comes next."""

from __future__ import annotations

from collections.abc import Mapping

from blamespan_lab.make.simulation.agents.agent import DecisionContext, prefix_statement, speak
from blamespan_lab.make.simulation.agents.knowledge import StatedFact
from blamespan_lab.make.simulation.agents.policy import Reply, RequestedCall
from blamespan_lab.make.simulation.statements.facts import FactValue, is_same
from blamespan_lab.make.simulation.statements.writing import fill_phrase, write_rule
from blamespan_lab.make.wordings import choose
from blamespan_lab.make.wordings.banks import FAULTS, TALK


def report(context: DecisionContext) -> Reply:
    """Report the final answer."""
    if context.target not in context.values:
        done = derive_facts(context, everything=True)
        if context.target not in done:
            return speak(
                context,
                context.compose(ask_for_inputs(context), closes=choose_termination_word(context)),
            )
    value = read_value(context, context.target)
    text = prefix_statement(choose(TALK.finals, context.rng), context.state(context.target, value))
    return speak(context, context.compose(text, closes=choose_termination_word(context), opening=" "))


def call_tools(context: DecisionContext) -> tuple[RequestedCall, ...]:
    """Ask for what is missing, as much as the pace allows; or claim to know some of it, and look no further."""
    if not context.tools:
        return ()
    keys = context.knowledge.missing()[: context.profile.pace]
    invented = [key for key in keys if _is_callable(context, key) and context.errs("blamespan:X1", "claims", key)]
    if invented:  # a reply that calls says nothing: what is claimed is said at once, and shows
        context.values.update({key: context.draw_claim(key) for key in invented})
        return ()
    asked = [context.call(key) for key in keys]
    return tuple(call for call in asked if call is not None)


def list_claims(context: DecisionContext) -> list[str]:
    """List what the agent claims to know in this decision."""
    return [mistake.about for mistake in context.mistakes if mistake.kind == "claims"]


def _is_callable(context: DecisionContext, key: str) -> bool:
    lookup = context.facts[key].lookup
    return context.facts[key].kind == "amount" and lookup is not None and context.may_call(lookup.tool)


def call_calculator(context: DecisionContext) -> tuple[RequestedCall, ...]:
    """Let the calculator do the next step, now and then."""
    open_keys = context.knowledge.open_keys()
    if not open_keys or not context.may_call("calculate"):
        return ()
    key = open_keys[0]
    expression = context.knowledge.working(key)
    if not expression or context.knowledge.calls.get(key) or not context.chance(0.5, "calculate", key):
        return ()
    return (RequestedCall.of("calculate", {"expression": expression.replace("×", "*")}),)  # noqa: RUF001


def derive_facts(
    context: DecisionContext, *, everything: bool = False, values: Mapping[str, FactValue] | None = None
) -> dict[str, FactValue]:
    """Work out what follows from what is known, as much as the pace allows.

    Args:
        context: The decision.
        everything: Whether the pace sets no limit.
        values: What counts as known already; by default what the agent goes by.
    """
    done: dict[str, FactValue] = {}
    most = 99 if everything else context.profile.pace
    for key in context.knowledge.needed:
        rule = context.knowledge.rules.get(key)
        if rule is None or len(done) >= most:
            continue
        is_open = (
            (values is not None and key not in values) or key not in context.values or context.knowledge.is_stale(key)
        )
        if is_open or any(name in done for name in rule.inputs):
            value = context.derive(key)
            if value is not None:
                context.values[key] = done[key] = value
    return done


def is_answer_known(context: DecisionContext) -> bool:
    """Return whether the answer is there, and newer than all it rests on or worked out again just now."""
    if context.target not in context.values:
        return False
    knowledge = context.knowledge
    return not knowledge.is_stale(context.target) or not is_same(
        context.values[context.target], knowledge.values.get(context.target)
    )


def state_lookups(context: DecisionContext) -> list[str]:
    """State what tools told since the agent last spoke."""
    since = context.knowledge.last_text_index()
    new = [c.key for c in context.knowledge.claims if c.index > since and _is_of_tool(c)]
    keys = dict.fromkeys([*new, *context.knowledge.unstated()])
    lines = [context.explain(key, read_value(context, key)) for key in keys if key in context.values]
    return lines + [context.state(key, context.values[key]) for key in list_claims(context)]


def _is_of_tool(claim: StatedFact) -> bool:
    return claim.source == "tool" or claim.speaker == "calculate"


def read_value(context: DecisionContext, key: str) -> FactValue:
    """Read off a value that is known; it may be misread."""
    value = context.values[key]
    if context.errs("blamespan:X3", "misread", key):
        value = context.values[key] = context.make_mistake("misread", key, value)
    return value


def ask_for_inputs(context: DecisionContext) -> str:
    """Ask for what is missing; or make an answer up."""
    lacking = [k for k in context.knowledge.needed if k not in context.values and k not in context.knowledge.rules]
    key = lacking[0] if lacking else context.target
    if context.facts[key].kind == "amount" and context.errs("blamespan:X1", "claims", key):
        context.values[key] = context.draw_claim(key)
        return context.state(key, context.values[key]) + ". " + choose(FAULTS.unsupported, context.rng)
    return fill_phrase(choose(TALK.asks, context.rng), context.facts[key].phrase)


def report_progress(context: DecisionContext) -> Reply:
    """Report what is open, or that the answer is there."""
    open_keys = [*context.knowledge.missing(), *context.knowledge.open_keys()]
    opening = choose(TALK.progress, context.rng)
    if open_keys:
        return speak(
            context, context.compose(f"the {context.facts[open_keys[0]].phrase}.", brief(context, []), opening=opening)
        )
    if context.target in context.values and context.knowledge.is_settled():
        return speak(context, context.compose(context.state_answer()))
    return speak(context, context.compose(ask_for_inputs(context), opening=opening))


def restate_givens(context: DecisionContext, *, always: bool, share: float) -> str:
    """Restate what the task gives: always, or with a chance of *share*."""
    keys = [key for key in context.knowledge.needed if key in context.knowledge.origins]
    if not keys or not (always or context.chance(share, "restates")):
        return ""
    lines = [
        context.state(key, read_value(context, key))
        for key in keys
        if not context.errs("mast:FM-2.4", "withholds", key)
    ]
    return choose(TALK.restates, context.rng) + "\n" + context.lay_out(lines)


def brief(context: DecisionContext, stated: list[str]) -> str:
    """Write all that the next agent needs, where it reads nobody else, but for what is *stated* already."""
    if not context.profile.briefs or context.profile.member.role == "planner":
        return ""
    knowledge = context.knowledge
    if is_answer_known(context):
        return "" if context.target in stated else context.state_answer()
    values = [
        context.state(key, read_value(context, key))
        for key in knowledge.needed
        if key in context.values and key not in stated
    ]
    rules = [
        write_rule(knowledge.rules[key], context.facts, context.profile.task.measure, context.rng)
        for key in knowledge.needed
        if key in knowledge.rules and key not in context.values and not is_implied(context, key)
    ]
    return "\n".join([context.lay_out(values), context.lay_out(rules, joins=False)])


def is_implied(context: DecisionContext, key: str) -> bool:
    """Return whether the rule for *key* goes without saying."""
    return any(rule.out == key for rule in context.profile.task.implied)


def choose_termination_word(context: DecisionContext) -> str:
    """Choose a word by which the team ends, where it is for this agent to say it; else nothing."""
    return context.rng.choice(TALK.termination_words) if context.profile.closes else ""
