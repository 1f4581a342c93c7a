"""Checking others' work: looking up again, working out again, running tests, objecting or approving."""

from __future__ import annotations

from blamespan_lab.simulation.agent import Moment, speaking
from blamespan_lab.simulation.facts import Value, same
from blamespan_lab.simulation.knowledge import Claim, rederived
from blamespan_lab.simulation.policies import Mistake, Reply, ToolCall
from blamespan_lab.simulation.prose import about, correct
from blamespan_lab.simulation.working import brief, is_known, mark
from blamespan_lab.wordings import choose
from blamespan_lab.wordings.banks import FAULTS, TALK

__all__ = ["verify"]


def verify(moment: Moment) -> Reply:
    """Work out or look up again what others said, object or approve."""
    if moment.errs("mast:FM-3.1", "ends-early"):
        return Reply(moment.composed(choose(FAULTS.ends, moment.rng), closes=mark(moment, moment.who.closes)))
    code = moment.values.get(moment.target) if moment.facts[moment.target].kind == "code" else None
    if isinstance(code, str):
        return _test(moment, code)
    calls = _second_look(moment)
    if calls:
        return Reply(calls=calls)
    wrong = _objections(moment)
    if wrong:
        lines = [correct(moment.facts[c.key], value, c.value, moment.rng) for c, value in wrong]
        moment.values.update({c.key: value for c, value in wrong})
        text = moment.composed(
            moment.listed(lines, joins=False), brief(moment, []), opening=choose(TALK.objections, moment.rng)
        )
        return speaking(moment, text)
    if not is_known(moment):
        return speaking(moment, moment.composed(choose(TALK.go_on, moment.rng), brief(moment, [])))
    return _approved(moment)


def _second_look(moment: Moment) -> tuple[ToolCall, ...]:
    """Look up again what others claim a source says."""
    if not moment.tools:
        return ()
    since = moment.knowledge.last_text_place()
    calls = []
    for claim in moment.knowledge.said_since(since):
        is_new = not moment.knowledge.calls.get(claim.key) and moment.facts[claim.key].lookup is not None
        if is_new and moment.chance(moment.care, "look", claim.key):
            call = moment.call(claim.key)
            calls += [call] if call is not None else []
    return tuple(calls[: max(2, moment.who.pace)])


def _objections(moment: Moment) -> list[tuple[Claim, Value]]:
    """Find what others said and is wrong by one's own working, as far as one looks."""
    known = moment.knowledge
    base = {key: value for key, value in moment.values.items() if key not in known.rules}
    base.update({key: value for key, value in known.origins.items() if moment.chance(moment.care, "source", key)})
    wrong: list[tuple[Claim, Value]] = []
    skipped: list[str] = []
    for claim in known.said_since(_last_review(moment)):
        if not moment.chance(moment.care, "check", claim.key):
            if not same(claim.value, known.origins.get(claim.key)) or claim.key in known.rules:
                skipped.append(claim.key)
            continue
        value = rederived(known, claim.key, base) if claim.key in known.rules else known.origins.get(claim.key)
        if value is not None and moment.errs("mast:FM-3.3", "checks-wrongly", claim.key):
            value = moment.mistaken("checks-wrongly", claim.key, value)
        if value is not None and claim.key in known.needed and not same(value, claim.value):
            wrong.append((claim, value))
    if skipped:
        moment.mistakes.append(Mistake("mast:FM-3.2", "skips-check", ", ".join(skipped)))
    return wrong


def _last_review(moment: Moment) -> int:
    """Give the place since which others' statements are looked at: all of them, again, when the answer is there."""
    return -1 if is_known(moment) else moment.knowledge.last_text_place()


def _approved(moment: Moment) -> Reply:
    words = choose(TALK.approvals, moment.rng)
    return speaking(
        moment, moment.composed(words, moment.settled(), closes=mark(moment, moment.who.closes), opening=" ")
    )


def _test(moment: Moment, code: str) -> Reply:
    """Run the tests, or read the code; object with what a coder needs, or approve."""
    if (
        moment.chance(moment.care, "test")
        and moment.may_call("run_tests")
        and code.strip() not in moment.knowledge.tested
    ):
        return Reply(calls=(ToolCall.of("run_tests", {"code": code}),))
    passed = moment.knowledge.tested.get(code.strip())
    is_known = moment.target in moment.knowledge.rules and any(
        key in moment.values for key in moment.knowledge.needed[:-1]
    )
    mine = moment.derive(moment.target) if is_known else code
    is_wrong = passed is False or (passed is None and not same(mine, code) and moment.chance(moment.care, "read"))
    if is_wrong and not moment.errs("mast:FM-3.3", "checks-wrongly", moment.target):
        rule = moment.knowledge.rules[moment.target]
        missed = [key for key in rule.inputs if key in moment.values]
        lines = [moment.says(key, moment.values[key]) for key in missed]
        bank = TALK.tests_fail if passed is False else TALK.code_objections
        opening = about(choose(bank, moment.rng), moment.facts[moment.target].phrase)
        return speaking(moment, moment.composed(moment.listed(lines), brief(moment, missed), opening=opening))
    if passed is None:
        moment.mistakes.append(Mistake("mast:FM-3.2", "skips-check", moment.target))
    words = choose(TALK.tests_pass if passed else TALK.approvals, moment.rng)
    shown = moment.says(moment.target, code) if moment.who.briefs or moment.rng.random() < 0.5 else ""
    return speaking(moment, moment.composed(words, shown, closes=mark(moment, moment.who.closes), opening=" "))
