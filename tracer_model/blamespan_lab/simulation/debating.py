"""Debating: an answer of one's own, weighed against the others'; and who judges them in the end."""

from __future__ import annotations

from collections import Counter

from blamespan_lab.simulation.agent import Moment, speaking
from blamespan_lab.simulation.facts import Value, same
from blamespan_lab.simulation.knowledge import rederived
from blamespan_lab.simulation.policies import Reply
from blamespan_lab.simulation.working import calls, claimed, derived, looked_up, report, without_inputs
from blamespan_lab.wordings import choose
from blamespan_lab.wordings.banks import TALK

__all__ = ["debate", "judge"]


def debate(moment: Moment) -> Reply:
    """Work out an answer oneself; then compare with the others', look again, keep to it or change it."""
    if moment.who.member.name in _answers(moment):
        return _reply_in_debate(moment)
    asked = calls(moment)
    if asked:
        return Reply(calls=asked)
    made_up = {key: moment.values[key] for key in claimed(moment)}
    moment.values = _own_view(moment) | made_up
    done = derived(moment, everything=True, known=_own_view(moment))
    lines = [*looked_up(moment), *(moment.explains(key, value, with_working=True) for key, value in done.items())]
    if moment.target not in moment.values:
        return speaking(moment, moment.composed(moment.listed(lines), without_inputs(moment)))
    parts = [] if moment.target in done else [moment.settled()]
    return speaking(moment, moment.composed(moment.listed(lines), *parts))


def judge(moment: Moment) -> Reply:
    """Weigh the answers: the one most give; where they differ, work it out again."""
    answers = _answers(moment)
    if not answers:
        return report(moment)
    ranked = Counter(map(_shown, answers.values())).most_common()
    value = next(v for v in answers.values() if _shown(v) == ranked[0][0])
    is_split = len(ranked) > 1
    if is_split and moment.chance(moment.care, "weigh"):
        again = rederived(moment.knowledge, moment.target, moment.knowledge.origins)
        value = again if again is not None else value
    moment.values[moment.target] = value
    return report(moment)


def _reply_in_debate(moment: Moment) -> Reply:
    answers = _answers(moment)
    mine = answers.pop(moment.who.member.name)
    others = [value for value in answers.values() if not same(value, mine)]
    if others and moment.chance(moment.care, "recheck"):
        base = {key: value for key, value in _own_view(moment).items() if key not in moment.knowledge.rules}
        again = rederived(moment.knowledge, moment.target, {**base, **moment.knowledge.origins})
        if again is not None and moment.errs("mast:FM-2.6", "slip", moment.target):
            again = moment.mistaken("slip", moment.target, again, answers.values())
        value, bank = (
            (again, TALK.stands_by if same(again, mine) else TALK.rechecks)
            if again is not None
            else (mine, TALK.debates)
        )
    elif others and moment.chance(0.4, "adopt"):
        value, bank = Counter(others).most_common(1)[0][0], TALK.adopts
    else:
        value, bank = mine, TALK.debates
    moment.values[moment.target] = value
    return speaking(moment, moment.composed(moment.settled(), opening=choose(bank, moment.rng)))


def _own_view(moment: Moment) -> dict[str, Value]:
    """Give what the agent knows without the others' answers."""
    return {
        c.key: c.value for c in moment.knowledge.claims if c.source != "said" or c.speaker == moment.who.member.name
    }


def _answers(moment: Moment) -> dict[str, Value]:
    """Give each speaker's last answer."""
    return {
        c.speaker: c.value
        for c in moment.knowledge.claims
        if c.key == moment.target and c.source == "said" and c.speaker
    }


def _shown(value: Value) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value).casefold().strip()
