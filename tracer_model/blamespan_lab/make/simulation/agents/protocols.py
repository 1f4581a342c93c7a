"""How an agent's action becomes the answer that a framework's own way of working asks for.

Most agents simply speak. One that leads is asked for facts, a plan, or a ledger in JSON; what is asked shows in the
messages.
"""

from __future__ import annotations

import json
import re

from blamespan_lab.make.simulation.agents.actions import restate_givens
from blamespan_lab.make.simulation.agents.agent import DecisionContext
from blamespan_lab.make.simulation.agents.policy import Reply
from blamespan_lab.make.simulation.agents.roles import ACTIONS, choose_next_role, write_plan

_LEDGER = "pure JSON format"
_FACTS = "GIVEN OR VERIFIED FACTS"
_PLAN = "bullet-point plan"
_NEXT = re.compile(r"NEXT:\s*([\w-]+)")


def decide(context: DecisionContext) -> Reply:
    """Return what the agent answers to what it was sent last."""
    last = next((message.text for message in reversed(context.messages) if message.kind != "own"), "")
    if context.profile.member.role == "orchestrator" and _LEDGER in last:
        return _fill_ledger(context)
    if context.profile.member.role == "orchestrator" and _FACTS in last:
        return Reply(context.compose(restate_givens(context, always=True, share=1.0)))
    if context.profile.member.role == "orchestrator" and _PLAN in last:
        return write_plan(context)
    return ACTIONS[context.profile.member.role](context)


def read_next_speaker(text: str) -> str | None:
    """Read who is next from what an orchestrator wrote, or None."""
    names = _NEXT.findall(text)
    return str(names[-1]) if names else None


def _fill_ledger(context: DecisionContext) -> Reply:
    """Fill in MagenticOne's ledger."""
    role = choose_next_role(context)
    names = [member.name for member in context.profile.team if member.role == role]
    instruction = ACTIONS["orchestrator"](context).text
    done = role is None or not names
    others = [member.name for member in context.profile.team if member.role != "orchestrator"]
    entry = {
        "is_request_satisfied": ("the answer was given and checked" if done else "something is open", done),
        "is_in_loop": ("each message adds something", False),
        "is_progress_being_made": ("yes" if not done else "nothing is left", True),
        "next_speaker": ("by what is open", read_next_speaker(instruction) or (names or others)[0]),
        "instruction_or_question": ("the next thing to do", instruction.partition("NEXT:")[0].strip() or "Go on."),
    }
    return Reply(json.dumps({key: {"reason": reason, "answer": answer} for key, (reason, answer) in entry.items()}))
