"""What each role does when it decides: plan, research, solve, verify, report, orchestrate, debate, judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

from blamespan_lab.make.simulation.agents.actions import (
    ask_for_inputs,
    brief,
    call_calculator,
    call_tools,
    choose_termination_word,
    derive_facts,
    is_answer_known,
    is_implied,
    list_claims,
    read_value,
    report,
    report_progress,
    restate_givens,
    state_lookups,
)
from blamespan_lab.make.simulation.agents.agent import DecisionContext, prefix_statement, speak
from blamespan_lab.make.simulation.agents.knowledge import StatedFact, rederive
from blamespan_lab.make.simulation.agents.policy import Mistake, Reply, RequestedCall
from blamespan_lab.make.simulation.agents.team import Role
from blamespan_lab.make.simulation.statements.facts import FactValue, is_same
from blamespan_lab.make.simulation.statements.writing import end_sentence, fill_phrase, write_correction, write_rule
from blamespan_lab.make.wordings import choose
from blamespan_lab.make.wordings.banks import FAULTS, TALK


def plan(context: DecisionContext) -> Reply:
    """Set out the rules that lead to the answer, in order, with what is given; later, say what is open."""
    return report_progress(context) if context.has_spoken() else write_plan(context)


def write_plan(context: DecisionContext) -> Reply:
    """Set out what is to be looked up and worked out, in order."""
    lines, knowledge = [], context.knowledge
    for key in knowledge.needed:
        fact, rule = context.facts[key], knowledge.rules.get(key)
        if fact.lookup is not None:
            lines.append(fill_phrase(choose(TALK.look_ups, context.rng), fact.phrase))
        elif rule is None or is_implied(context, key):
            continue
        elif not context.errs("mast:FM-2.4", "withholds", key):
            lines.append(write_rule(rule, context.facts, context.profile.task.measure, context.rng))
    givens = restate_givens(context, always=context.profile.briefs or not lines, share=0.5)
    text = context.compose(givens, context.lay_out(lines, joins=False), opening=choose(TALK.plans, context.rng))
    return speak(context, text)


def research(context: DecisionContext) -> Reply:
    """Look up what is missing, then report what was found."""
    asked = call_tools(context)
    if asked:
        return Reply(calls=asked)
    since = context.knowledge.last_text_index()
    new = {c.key for c in context.knowledge.claims if c.source == "tool" and c.index > since}
    new.update(context.knowledge.unstated())
    reported = [
        key for key in context.knowledge.needed if key in new and not context.errs("mast:FM-2.4", "withholds", key)
    ]
    lines = [context.explain(key, read_value(context, key)) for key in reported]
    lines += [context.state(key, context.values[key]) for key in list_claims(context)]
    missing = [
        fill_phrase(choose(TALK.not_found, context.rng), context.facts[key].phrase)
        for key in context.knowledge.needed
        if context.facts[key].lookup is not None and key not in context.values
    ]
    if not lines and not missing:
        return report_progress(context)
    text = context.compose(
        context.lay_out(lines), *missing[:2], brief(context, reported), opening=choose(TALK.findings, context.rng)
    )
    return speak(context, text)


def solve(context: DecisionContext) -> Reply:
    """Look up what is missing if there are tools, work out what follows, conclude when the answer is there."""
    asked = call_tools(context) or call_calculator(context)
    if asked:
        return Reply(calls=asked)
    done = derive_facts(context)
    lines = [context.explain(key, value, with_working=True) for key, value in done.items()]
    parts = [context.lay_out([*state_lookups(context), *lines])]
    if is_answer_known(context):
        if context.target not in done:
            parts.append(context.state_answer())
        return speak(
            context,
            context.compose(*parts, brief(context, list(done)), closes=choose_termination_word(context)),
        )
    if not lines:
        parts.append(ask_for_inputs(context))
    return speak(context, context.compose(*parts, brief(context, list(done))))


def orchestrate(context: DecisionContext) -> Reply:
    """Choose who is next and write what they are to do; or that the work is done."""
    role = choose_next_role(context)
    names = [m.name for m in context.profile.team if m.role == role]
    if role is None or not names:
        if context.target in context.values:
            text = prefix_statement(
                choose(TALK.finals, context.rng), context.state(context.target, read_value(context, context.target))
            )
            return Reply(context.compose(text, closes="FINISH", opening=" "))
        return Reply(context.compose(ask_for_inputs(context), closes="FINISH"))
    return speak(
        context,
        context.compose(_write_instruction(context, role), closes=f"NEXT: {_choose_least_busy(context, names)}"),
    )


def choose_next_role(context: DecisionContext) -> Role | None:
    """Decide what kind of agent the run needs next, by what is known and who has spoken since."""
    knowledge, roles = context.knowledge, {m.name: m.role for m in context.profile.team}
    spoken = [
        roles.get(message.sender, "")
        for message in context.messages
        if message.kind in ("message", "own") and message.text
    ]
    present = set(roles.values())
    if "planner" in present and "planner" not in spoken:
        return "planner"
    if knowledge.missing() and "researcher" in present and spoken.count("researcher") < 6:
        return "researcher"
    is_settled = knowledge.is_settled() or (context.target in context.values and not knowledge.open_keys())
    if not is_settled:
        return "solver" if not _is_stuck(context, roles) else None
    if context.errs("mast:FM-3.2", "skips-check"):
        return "reporter" if "reporter" in present and "reporter" not in spoken else None
    last_claim = max((c.index for c in knowledge.claims if c.key == context.target and c.source == "said"), default=-1)
    checked = [
        p for p, m in enumerate(context.messages) if roles.get(m.sender) == "verifier" and m.text and p >= last_claim
    ]
    if "verifier" in present and not checked:
        return "verifier"
    return "reporter" if "reporter" in present and "reporter" not in spoken else None


def _is_stuck(context: DecisionContext, roles: Mapping[str, str]) -> bool:
    """Return whether the solvers have spoken three times without a new statement."""
    last = max((claim.index for claim in context.knowledge.claims), default=-1)
    since = [
        m for index, m in enumerate(context.messages) if index > last and m.text and roles.get(m.sender) == "solver"
    ]
    return len(since) >= 3


def _write_instruction(context: DecisionContext, role: Role) -> str:
    keys = {"researcher": context.knowledge.missing(), "solver": context.knowledge.open_keys()}.get(role, [])
    if keys:
        bank = TALK.look_ups if role == "researcher" else TALK.next_instructions["solver"]
        return end_sentence(fill_phrase(choose(bank, context.rng), context.facts[keys[0]].phrase))
    return choose(TALK.next_instructions["other" if role == "solver" else role], context.rng)


def _choose_least_busy(context: DecisionContext, names: list[str]) -> str:
    spoken = Counter(message.sender for message in context.messages if message.text)
    return min(names, key=lambda name: (spoken[name], names.index(name)))


def verify(context: DecisionContext) -> Reply:
    """Work out or look up again what others said, object or approve."""
    if context.errs("mast:FM-3.1", "ends-early"):
        return Reply(context.compose(choose(FAULTS.ends, context.rng), closes=choose_termination_word(context)))
    calls = _repeat_lookups(context)
    if calls:
        return Reply(calls=calls)
    wrong = _find_errors(context)
    if wrong:
        lines = [write_correction(context.facts[c.key], value, c.value, context.rng) for c, value in wrong]
        context.values.update({c.key: value for c, value in wrong})
        text = context.compose(
            context.lay_out(lines, joins=False), brief(context, []), opening=choose(TALK.objections, context.rng)
        )
        return speak(context, text)
    if not is_answer_known(context):
        return speak(context, context.compose(choose(TALK.go_on, context.rng), brief(context, [])))
    return _approve(context)


def _repeat_lookups(context: DecisionContext) -> tuple[RequestedCall, ...]:
    """Look up again what others claim a source says."""
    if not context.tools:
        return ()
    since = context.knowledge.last_text_index()
    calls: list[RequestedCall] = []
    for claim in context.knowledge.statements_since(since):
        is_new = not context.knowledge.calls.get(claim.key) and context.facts[claim.key].lookup is not None
        if is_new and context.chance(context.care, "look", claim.key):
            call = context.call(claim.key)
            calls += [call] if call is not None else []
    return tuple(calls[: max(2, context.profile.pace)])


def _find_errors(context: DecisionContext) -> list[tuple[StatedFact, FactValue]]:
    """Find what others said and is wrong by one's own working, as far as one looks."""
    knowledge = context.knowledge
    base = {key: value for key, value in context.values.items() if key not in knowledge.rules}
    base.update({key: value for key, value in knowledge.origins.items() if context.chance(context.care, "source", key)})
    wrong: list[tuple[StatedFact, FactValue]] = []
    skipped: list[str] = []
    for claim in knowledge.statements_since(_last_review_index(context)):
        if not context.chance(context.care, "check", claim.key):
            if not is_same(claim.value, knowledge.origins.get(claim.key)) or claim.key in knowledge.rules:
                skipped.append(claim.key)
            continue
        value = (
            rederive(knowledge, claim.key, base) if claim.key in knowledge.rules else knowledge.origins.get(claim.key)
        )
        if value is not None and context.errs("mast:FM-3.3", "checks-wrongly", claim.key):
            value = context.make_mistake("checks-wrongly", claim.key, value)
        if value is not None and claim.key in knowledge.needed and not is_same(value, claim.value):
            wrong.append((claim, value))
    if skipped:
        context.mistakes.append(Mistake("mast:FM-3.2", "skips-check", ", ".join(skipped)))
    return wrong


def _last_review_index(context: DecisionContext) -> int:
    """Return the message after which others' statements are reviewed: -1, all of them, when the answer is there."""
    return -1 if is_answer_known(context) else context.knowledge.last_text_index()


def _approve(context: DecisionContext) -> Reply:
    words = choose(TALK.approvals, context.rng)
    return speak(
        context,
        context.compose(words, context.state_answer(), closes=choose_termination_word(context), opening=" "),
    )


def debate(context: DecisionContext) -> Reply:
    """Work out an answer oneself; then compare with the others', look again, keep to it or change it."""
    if context.profile.member.name in _collect_answers(context):
        return _reply_in_debate(context)
    asked = call_tools(context)
    if asked:
        return Reply(calls=asked)
    invented = {key: context.values[key] for key in list_claims(context)}
    context.values = _own_values(context) | invented
    done = derive_facts(context, everything=True, values=_own_values(context))
    lines = [*state_lookups(context), *(context.explain(key, value, with_working=True) for key, value in done.items())]
    if context.target not in context.values:
        return speak(context, context.compose(context.lay_out(lines), ask_for_inputs(context)))
    parts = [] if context.target in done else [context.state_answer()]
    return speak(context, context.compose(context.lay_out(lines), *parts))


def judge(context: DecisionContext) -> Reply:
    """Weigh the answers: the one most give; where they differ, work it out again."""
    answers = _collect_answers(context)
    if not answers:
        return report(context)
    ranked = Counter(map(_normalize_answer, answers.values())).most_common()
    value = next(v for v in answers.values() if _normalize_answer(v) == ranked[0][0])
    is_split = len(ranked) > 1
    if is_split and context.chance(context.care, "weigh"):
        again = rederive(context.knowledge, context.target, context.knowledge.origins)
        value = again if again is not None else value
    context.values[context.target] = value
    return report(context)


def _reply_in_debate(context: DecisionContext) -> Reply:
    answers = _collect_answers(context)
    mine = answers.pop(context.profile.member.name)
    others = [value for value in answers.values() if not is_same(value, mine)]
    if others and context.chance(context.care, "recheck"):
        base = {key: value for key, value in _own_values(context).items() if key not in context.knowledge.rules}
        again = rederive(context.knowledge, context.target, {**base, **context.knowledge.origins})
        if again is not None and context.errs("mast:FM-2.6", "slip", context.target):
            again = context.make_mistake("slip", context.target, again, answers.values())
        value, bank = (
            (again, TALK.stands_by if is_same(again, mine) else TALK.rechecks)
            if again is not None
            else (mine, TALK.debates)
        )
    elif others and context.chance(0.4, "adopt"):
        value, bank = Counter(others).most_common(1)[0][0], TALK.adopts
    else:
        value, bank = mine, TALK.debates
    context.values[context.target] = value
    return speak(context, context.compose(context.state_answer(), opening=choose(bank, context.rng)))


def _own_values(context: DecisionContext) -> dict[str, FactValue]:
    """Return what the agent knows without the others' answers."""
    return {
        c.key: c.value
        for c in context.knowledge.claims
        if c.source != "said" or c.speaker == context.profile.member.name
    }


def _collect_answers(context: DecisionContext) -> dict[str, FactValue]:
    """Return each speaker's last answer."""
    return {
        c.speaker: c.value
        for c in context.knowledge.claims
        if c.key == context.target and c.source == "said" and c.speaker
    }


def _normalize_answer(value: FactValue) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value).casefold().strip()


ACTIONS: Mapping[Role, Callable[[DecisionContext], Reply]] = MappingProxyType(
    {
        "planner": plan,
        "researcher": research,
        "solver": solve,
        "verifier": verify,
        "reporter": report,
        "orchestrator": orchestrate,
        "debater": debate,
        "judge": judge,
    }
)
"""What each role does when it decides."""
