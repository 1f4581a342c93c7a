"""Leading: who is next, what they are to do, and when it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from blamespan_lab.simulation.agent import Moment, led, speaking
from blamespan_lab.simulation.casts import Role
from blamespan_lab.simulation.policies import Reply
from blamespan_lab.simulation.prose import about, sentence
from blamespan_lab.simulation.working import read_off, without_inputs
from blamespan_lab.wordings import choose
from blamespan_lab.wordings.banks import TALK

__all__ = ["lead", "next_role"]


def lead(moment: Moment) -> Reply:
    """Say who is next and what they are to do; or that it is done."""
    who = next_role(moment)
    names = [m.name for m in moment.who.team if m.role == who]
    if who is None or not names:
        if moment.target in moment.values:
            text = led(choose(TALK.finals, moment.rng), moment.says(moment.target, read_off(moment, moment.target)))
            return Reply(moment.composed(text, closes="FINISH", opening=" "))
        return Reply(moment.composed(without_inputs(moment), closes="FINISH"))
    return speaking(moment, moment.composed(_instruction(moment, who), closes=f"NEXT: {_least_busy(moment, names)}"))


def next_role(moment: Moment) -> Role | None:
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


def _is_stuck(moment: Moment, roles: Mapping[str, str]) -> bool:
    """Tell whether the solvers have spoken three times without a new statement."""
    last = max((claim.place for claim in moment.knowledge.claims), default=-1)
    since = [m for place, m in enumerate(moment.heard) if place > last and m.text and roles.get(m.sender) == "solver"]
    return len(since) >= 3


def _instruction(moment: Moment, who: Role) -> str:
    keys = {"researcher": moment.knowledge.missing(), "solver": moment.knowledge.open_keys()}.get(who, [])
    if keys:
        bank = TALK.look_ups if who == "researcher" else TALK.duties_next["solver"]
        return sentence(about(choose(bank, moment.rng), moment.facts[keys[0]].phrase))
    return choose(TALK.duties_next["other" if who == "solver" else who], moment.rng)


def _least_busy(moment: Moment, names: list[str]) -> str:
    spoken = Counter(message.sender for message in moment.heard if message.text)
    return min(names, key=lambda name: (spoken[name], names.index(name)))
