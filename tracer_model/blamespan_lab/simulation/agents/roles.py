"""What each role does when it decides: plan, research, solve, verify, report, orchestrate, debate, judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

from blamespan_lab.simulation.agents.actions import (
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
from blamespan_lab.simulation.agents.agent import DecisionContext, prefix_statement, speak
from blamespan_lab.simulation.agents.knowledge import Claim, rederive
from blamespan_lab.simulation.agents.policy import Mistake, Reply, RequestedCall
from blamespan_lab.simulation.agents.team import Role
from blamespan_lab.simulation.statements.facts import Value, is_same
from blamespan_lab.simulation.statements.writing import end_sentence, fill_phrase, write_correction, write_rule
from blamespan_lab.wordings import choose
from blamespan_lab.wordings.banks import FAULTS, TALK

__all__ = ["ACTIONS", "choose_next_role", "debate", "judge", "orchestrate", "verify", "write_plan"]


def plan(moment: DecisionContext) -> Reply:
    """Set out the rules that lead to the answer, in order, with what is given; later, say what is open."""
    return report_progress(moment) if moment.has_spoken() else write_plan(moment)


def write_plan(moment: DecisionContext) -> Reply:
    """Set out what is to be looked up and worked out, in order."""
    lines, known = [], moment.knowledge
    for key in known.needed:
        fact, rule = moment.facts[key], known.rules.get(key)
        if fact.lookup is not None:
            lines.append(fill_phrase(choose(TALK.look_ups, moment.rng), fact.phrase))
        elif rule is None or is_implied(moment, key):
            continue
        elif not moment.errs("mast:FM-2.4", "withholds", key):
            lines.append(write_rule(rule, moment.facts, moment.who.task.measure, moment.rng))
    given = restate_givens(moment, always=moment.who.briefs or not lines, share=0.5)
    text = moment.composed(given, moment.listed(lines, joins=False), opening=choose(TALK.plans, moment.rng))
    return speak(moment, text)


def research(moment: DecisionContext) -> Reply:
    """Look up what is missing, then report what was found."""
    asked = call_tools(moment)
    if asked:
        return Reply(calls=asked)
    since = moment.knowledge.last_text_place()
    found = {c.key for c in moment.knowledge.claims if c.source == "tool" and c.place > since}
    found.update(moment.knowledge.unsaid())
    told = [key for key in moment.knowledge.needed if key in found and not moment.errs("mast:FM-2.4", "withholds", key)]
    lines = [moment.explains(key, read_value(moment, key)) for key in told]
    lines += [moment.says(key, moment.values[key]) for key in list_claims(moment)]
    gone = [
        fill_phrase(choose(TALK.not_found, moment.rng), moment.facts[key].phrase)
        for key in moment.knowledge.needed
        if moment.facts[key].lookup is not None and key not in moment.values and moment.is_mine(key)
    ]
    if not lines and not gone:
        return report_progress(moment)
    text = moment.composed(
        moment.listed(lines), *gone[:2], brief(moment, told), opening=choose(TALK.findings, moment.rng)
    )
    return speak(moment, text)


def solve(moment: DecisionContext) -> Reply:
    """Look up what is missing if there are tools, work out what follows, conclude when the answer is there."""
    asked = call_tools(moment) or call_calculator(moment)
    if asked:
        return Reply(calls=asked)
    done = derive_facts(moment)
    lines = [moment.explains(key, value, with_working=True) for key, value in done.items()]
    parts = [moment.listed([*state_lookups(moment), *lines])]
    if is_answer_known(moment):
        if moment.target not in done:
            parts.append(moment.settled())
        return speak(
            moment,
            moment.composed(
                *parts, brief(moment, list(done)), closes=choose_termination_word(moment, moment.who.closes)
            ),
        )
    if not lines:
        parts.append(ask_for_inputs(moment))
    return speak(moment, moment.composed(*parts, brief(moment, list(done))))


def orchestrate(moment: DecisionContext) -> Reply:
    """Say who is next and what they are to do; or that it is done."""
    who = choose_next_role(moment)
    names = [m.name for m in moment.who.team if m.role == who]
    if who is None or not names:
        if moment.target in moment.values:
            text = prefix_statement(
                choose(TALK.finals, moment.rng), moment.says(moment.target, read_value(moment, moment.target))
            )
            return Reply(moment.composed(text, closes="FINISH", opening=" "))
        return Reply(moment.composed(ask_for_inputs(moment), closes="FINISH"))
    return speak(
        moment, moment.composed(_write_instruction(moment, who), closes=f"NEXT: {_choose_least_busy(moment, names)}")
    )


def choose_next_role(moment: DecisionContext) -> Role | None:
    """Decide what kind of agent the run needs next, by what is known and who has spoken since."""
    known, roles = moment.knowledge, {m.name: m.role for m in moment.who.team}
    spoken = [
        roles.get(message.sender, "") for message in moment.heard if message.kind in ("message", "own") and message.text
    ]
    present = set(roles.values())
    if "planner" in present and "planner" not in spoken:
        return "planner"
    if known.missing() and "researcher" in present and spoken.count("researcher") < 6:
        return "researcher"
    is_settled = known.is_settled() or (moment.target in moment.values and not known.open_keys())
    if not is_settled:
        return "solver" if not _is_stuck(moment, roles) else None
    if moment.errs("mast:FM-3.2", "skips-check"):
        return "reporter" if "reporter" in present and "reporter" not in spoken else None
    last_claim = max((c.place for c in known.claims if c.key == moment.target and c.source == "said"), default=-1)
    checked = [
        p for p, m in enumerate(moment.heard) if roles.get(m.sender) == "verifier" and m.text and p >= last_claim
    ]
    if "verifier" in present and not checked:
        return "verifier"
    return "reporter" if "reporter" in present and "reporter" not in spoken else None


def _is_stuck(moment: DecisionContext, roles: Mapping[str, str]) -> bool:
    """Tell whether the solvers have spoken three times without a new statement."""
    last = max((claim.place for claim in moment.knowledge.claims), default=-1)
    since = [m for place, m in enumerate(moment.heard) if place > last and m.text and roles.get(m.sender) == "solver"]
    return len(since) >= 3


def _write_instruction(moment: DecisionContext, who: Role) -> str:
    keys = {"researcher": moment.knowledge.missing(), "solver": moment.knowledge.open_keys()}.get(who, [])
    if keys:
        bank = TALK.look_ups if who == "researcher" else TALK.duties_next["solver"]
        return end_sentence(fill_phrase(choose(bank, moment.rng), moment.facts[keys[0]].phrase))
    return choose(TALK.duties_next["other" if who == "solver" else who], moment.rng)


def _choose_least_busy(moment: DecisionContext, names: list[str]) -> str:
    spoken = Counter(message.sender for message in moment.heard if message.text)
    return min(names, key=lambda name: (spoken[name], names.index(name)))


def verify(moment: DecisionContext) -> Reply:
    """Work out or look up again what others said, object or approve."""
    if moment.errs("mast:FM-3.1", "ends-early"):
        return Reply(
            moment.composed(choose(FAULTS.ends, moment.rng), closes=choose_termination_word(moment, moment.who.closes))
        )
    code = moment.values.get(moment.target) if moment.facts[moment.target].kind == "code" else None
    if isinstance(code, str):
        return _test(moment, code)
    call_tools = _repeat_lookups(moment)
    if call_tools:
        return Reply(calls=call_tools)
    wrong = _find_errors(moment)
    if wrong:
        lines = [write_correction(moment.facts[c.key], value, c.value, moment.rng) for c, value in wrong]
        moment.values.update({c.key: value for c, value in wrong})
        text = moment.composed(
            moment.listed(lines, joins=False), brief(moment, []), opening=choose(TALK.objections, moment.rng)
        )
        return speak(moment, text)
    if not is_answer_known(moment):
        return speak(moment, moment.composed(choose(TALK.go_on, moment.rng), brief(moment, [])))
    return _approve(moment)


def _repeat_lookups(moment: DecisionContext) -> tuple[RequestedCall, ...]:
    """Look up again what others claim a source says."""
    if not moment.tools:
        return ()
    since = moment.knowledge.last_text_place()
    call_tools = []
    for claim in moment.knowledge.said_since(since):
        is_new = not moment.knowledge.calls.get(claim.key) and moment.facts[claim.key].lookup is not None
        if is_new and moment.chance(moment.care, "look", claim.key):
            call = moment.call(claim.key)
            call_tools += [call] if call is not None else []
    return tuple(call_tools[: max(2, moment.who.pace)])


def _find_errors(moment: DecisionContext) -> list[tuple[Claim, Value]]:
    """Find what others said and is wrong by one's own working, as far as one looks."""
    known = moment.knowledge
    base = {key: value for key, value in moment.values.items() if key not in known.rules}
    base.update({key: value for key, value in known.origins.items() if moment.chance(moment.care, "source", key)})
    wrong: list[tuple[Claim, Value]] = []
    skipped: list[str] = []
    for claim in known.said_since(_last_review_index(moment)):
        if not moment.chance(moment.care, "check", claim.key):
            if not is_same(claim.value, known.origins.get(claim.key)) or claim.key in known.rules:
                skipped.append(claim.key)
            continue
        value = rederive(known, claim.key, base) if claim.key in known.rules else known.origins.get(claim.key)
        if value is not None and moment.errs("mast:FM-3.3", "checks-wrongly", claim.key):
            value = moment.mistaken("checks-wrongly", claim.key, value)
        if value is not None and claim.key in known.needed and not is_same(value, claim.value):
            wrong.append((claim, value))
    if skipped:
        moment.mistakes.append(Mistake("mast:FM-3.2", "skips-check", ", ".join(skipped)))
    return wrong


def _last_review_index(moment: DecisionContext) -> int:
    """Give the place since which others' statements are looked at: all of them, again, when the answer is there."""
    return -1 if is_answer_known(moment) else moment.knowledge.last_text_place()


def _approve(moment: DecisionContext) -> Reply:
    words = choose(TALK.approvals, moment.rng)
    return speak(
        moment,
        moment.composed(
            words, moment.settled(), closes=choose_termination_word(moment, moment.who.closes), opening=" "
        ),
    )


def _test(moment: DecisionContext, code: str) -> Reply:
    """Run the tests, or read the code; object with what a coder needs, or approve."""
    if (
        moment.chance(moment.care, "test")
        and moment.may_call("run_tests")
        and code.strip() not in moment.knowledge.tested
    ):
        return Reply(calls=(RequestedCall.of("run_tests", {"code": code}),))
    passed = moment.knowledge.tested.get(code.strip())
    is_answer_known = moment.target in moment.knowledge.rules and any(
        key in moment.values for key in moment.knowledge.needed[:-1]
    )
    mine = moment.derive(moment.target) if is_answer_known else code
    is_wrong = passed is False or (passed is None and not is_same(mine, code) and moment.chance(moment.care, "read"))
    if is_wrong and not moment.errs("mast:FM-3.3", "checks-wrongly", moment.target):
        rule = moment.knowledge.rules[moment.target]
        missed = [key for key in rule.inputs if key in moment.values]
        lines = [moment.says(key, moment.values[key]) for key in missed]
        bank = TALK.tests_fail if passed is False else TALK.code_objections
        opening = fill_phrase(choose(bank, moment.rng), moment.facts[moment.target].phrase)
        return speak(moment, moment.composed(moment.listed(lines), brief(moment, missed), opening=opening))
    if passed is None:
        moment.mistakes.append(Mistake("mast:FM-3.2", "skips-check", moment.target))
    words = choose(TALK.tests_pass if passed else TALK.approvals, moment.rng)
    shown = moment.says(moment.target, code) if moment.who.briefs or moment.rng.random() < 0.5 else ""
    return speak(
        moment, moment.composed(words, shown, closes=choose_termination_word(moment, moment.who.closes), opening=" ")
    )


def debate(moment: DecisionContext) -> Reply:
    """Work out an answer oneself; then compare with the others', look again, keep to it or change it."""
    if moment.who.member.name in _collect_answers(moment):
        return _reply_in_debate(moment)
    asked = call_tools(moment)
    if asked:
        return Reply(calls=asked)
    made_up = {key: moment.values[key] for key in list_claims(moment)}
    moment.values = _own_values(moment) | made_up
    done = derive_facts(moment, everything=True, known=_own_values(moment))
    lines = [*state_lookups(moment), *(moment.explains(key, value, with_working=True) for key, value in done.items())]
    if moment.target not in moment.values:
        return speak(moment, moment.composed(moment.listed(lines), ask_for_inputs(moment)))
    parts = [] if moment.target in done else [moment.settled()]
    return speak(moment, moment.composed(moment.listed(lines), *parts))


def judge(moment: DecisionContext) -> Reply:
    """Weigh the answers: the one most give; where they differ, work it out again."""
    answers = _collect_answers(moment)
    if not answers:
        return report(moment)
    ranked = Counter(map(_normalize_answer, answers.values())).most_common()
    value = next(v for v in answers.values() if _normalize_answer(v) == ranked[0][0])
    is_split = len(ranked) > 1
    if is_split and moment.chance(moment.care, "weigh"):
        again = rederive(moment.knowledge, moment.target, moment.knowledge.origins)
        value = again if again is not None else value
    moment.values[moment.target] = value
    return report(moment)


def _reply_in_debate(moment: DecisionContext) -> Reply:
    answers = _collect_answers(moment)
    mine = answers.pop(moment.who.member.name)
    others = [value for value in answers.values() if not is_same(value, mine)]
    if others and moment.chance(moment.care, "recheck"):
        base = {key: value for key, value in _own_values(moment).items() if key not in moment.knowledge.rules}
        again = rederive(moment.knowledge, moment.target, {**base, **moment.knowledge.origins})
        if again is not None and moment.errs("mast:FM-2.6", "slip", moment.target):
            again = moment.mistaken("slip", moment.target, again, answers.values())
        value, bank = (
            (again, TALK.stands_by if is_same(again, mine) else TALK.rechecks)
            if again is not None
            else (mine, TALK.debates)
        )
    elif others and moment.chance(0.4, "adopt"):
        value, bank = Counter(others).most_common(1)[0][0], TALK.adopts
    else:
        value, bank = mine, TALK.debates
    moment.values[moment.target] = value
    return speak(moment, moment.composed(moment.settled(), opening=choose(bank, moment.rng)))


def _own_values(moment: DecisionContext) -> dict[str, Value]:
    """Give what the agent knows without the others' answers."""
    return {
        c.key: c.value for c in moment.knowledge.claims if c.source != "said" or c.speaker == moment.who.member.name
    }


def _collect_answers(moment: DecisionContext) -> dict[str, Value]:
    """Give each speaker's last answer."""
    return {
        c.speaker: c.value
        for c in moment.knowledge.claims
        if c.key == moment.target and c.source == "said" and c.speaker
    }


def _normalize_answer(value: Value) -> str:
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
