"""What each role does when it is its turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from blamespan_lab.simulation.agent import Moment, speaking
from blamespan_lab.simulation.casts import Role
from blamespan_lab.simulation.checking import verify
from blamespan_lab.simulation.debating import debate, judge
from blamespan_lab.simulation.leading import lead
from blamespan_lab.simulation.policies import Reply
from blamespan_lab.simulation.prose import about, state_rule
from blamespan_lab.simulation.working import (
    brief,
    calculation,
    calls,
    claimed,
    derived,
    is_known,
    is_unsaid,
    looked_up,
    mark,
    progress,
    read_off,
    report,
    restated,
    without_inputs,
)
from blamespan_lab.wordings import choose
from blamespan_lab.wordings.banks import TALK

__all__ = ["ACTIONS", "set_out"]


def plan(moment: Moment) -> Reply:
    """Set out the rules that lead to the answer, in order, with what is given; later, say what is open."""
    return progress(moment) if moment.has_spoken() else set_out(moment)


def set_out(moment: Moment) -> Reply:
    """Set out what is to be looked up and worked out, in order."""
    lines, known = [], moment.knowledge
    for key in known.needed:
        fact, rule = moment.facts[key], known.rules.get(key)
        if fact.lookup is not None:
            lines.append(about(choose(TALK.look_ups, moment.rng), fact.phrase))
        elif rule is None or is_unsaid(moment, key):
            continue
        elif not moment.errs("mast:FM-2.4", "withholds", key):
            lines.append(state_rule(rule, moment.facts, moment.who.task.measure, moment.rng))
    given = restated(moment, always=moment.who.briefs or not lines, share=0.5)
    text = moment.composed(given, moment.listed(lines, joins=False), opening=choose(TALK.plans, moment.rng))
    return speaking(moment, text)


def research(moment: Moment) -> Reply:
    """Look up what is missing, then report what was found."""
    asked = calls(moment)
    if asked:
        return Reply(calls=asked)
    since = moment.knowledge.last_text_place()
    found = {c.key for c in moment.knowledge.claims if c.source == "tool" and c.place > since}
    found.update(moment.knowledge.unsaid())
    told = [key for key in moment.knowledge.needed if key in found and not moment.errs("mast:FM-2.4", "withholds", key)]
    lines = [moment.explains(key, read_off(moment, key)) for key in told]
    lines += [moment.says(key, moment.values[key]) for key in claimed(moment)]
    gone = [
        about(choose(TALK.not_found, moment.rng), moment.facts[key].phrase)
        for key in moment.knowledge.needed
        if moment.facts[key].lookup is not None and key not in moment.values and moment.is_mine(key)
    ]
    if not lines and not gone:
        return progress(moment)
    text = moment.composed(
        moment.listed(lines), *gone[:2], brief(moment, told), opening=choose(TALK.findings, moment.rng)
    )
    return speaking(moment, text)


def solve(moment: Moment) -> Reply:
    """Look up what is missing if there are tools, work out what follows, conclude when the answer is there."""
    asked = calls(moment) or calculation(moment)
    if asked:
        return Reply(calls=asked)
    done = derived(moment)
    lines = [moment.explains(key, value, with_working=True) for key, value in done.items()]
    parts = [moment.listed([*looked_up(moment), *lines])]
    if is_known(moment):
        if moment.target not in done:
            parts.append(moment.settled())
        return speaking(
            moment, moment.composed(*parts, brief(moment, list(done)), closes=mark(moment, moment.who.closes))
        )
    if not lines:
        parts.append(without_inputs(moment))
    return speaking(moment, moment.composed(*parts, brief(moment, list(done))))


ACTIONS: Mapping[Role, Callable[[Moment], Reply]] = MappingProxyType(
    {
        "planner": plan,
        "researcher": research,
        "solver": solve,
        "verifier": verify,
        "reporter": report,
        "orchestrator": lead,
        "debater": debate,
        "judge": judge,
    }
)
"""What each role does when it is its turn."""
