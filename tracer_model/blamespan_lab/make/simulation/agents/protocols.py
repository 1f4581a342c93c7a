"""How an agent's action becomes the answer that a framework's own way of working asks for.

Most agents simply speak. One that passes the word on with a tool does so once it has spoken; one that leads is
asked for a name, or for a ledger in JSON; what is asked shows in the messages.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

from blamespan_lab.make.simulation.agents.actions import restate_givens
from blamespan_lab.make.simulation.agents.agent import DecisionContext
from blamespan_lab.make.simulation.agents.policy import InputMessage, Reply, RequestedCall
from blamespan_lab.make.simulation.agents.roles import ACTIONS, choose_next_role, write_plan

__all__ = ["HANDOVER", "SELECTOR_PROMPT", "decide", "read_next_speaker"]

HANDOVER = "transfer_to_"
"""How the tools begin by which the word is passed on."""

SELECTOR_PROMPT = (
    "You lead a team. These are its members:\n{roles}\n\nThe conversation so far:\n{history}\n\n"
    "Which of {participants} should speak next? Answer with one name only."
)
"""For AutoGen's SelectorGroupChat."""

_SELECTS = "Answer with one name only."
_LEDGER = "pure JSON format"
_FACTS = "GIVEN OR VERIFIED FACTS"
_PLAN = "bullet-point plan"
_NEXT = re.compile(r"NEXT:\s*([\w-]+)")


def decide(context: DecisionContext) -> Reply:
    """Return what the agent answers to what it was sent last."""
    last = next((message.text for message in reversed(context.messages) if message.kind != "own"), "")
    if _SELECTS in last:
        return _select_speaker(context)
    if context.profile.member.role == "orchestrator" and _LEDGER in last:
        return _fill_ledger(context)
    if context.profile.member.role == "orchestrator" and _FACTS in last:
        return Reply(context.compose(restate_givens(context, always=True, share=1.0)))
    if context.profile.member.role == "orchestrator" and _PLAN in last:
        return write_plan(context)
    if context.profile.hands_over and _has_just_spoken(context):
        return _hand_over(context)
    return ACTIONS[context.profile.member.role](context)


def read_next_speaker(text: str) -> str | None:
    """Read who is next from what an orchestrator wrote, or None."""
    names = _NEXT.findall(text)
    return str(names[-1]) if names else None


def _select_speaker(context: DecisionContext) -> Reply:
    """Read the conversation out of the prompt, and answer with a name."""
    prompt = next(message.text for message in reversed(context.messages) if _SELECTS in message.text)
    messages = _read_conversation(prompt, [member.name for member in context.profile.team])
    inner = replace(context, messages=messages, mistakes=[])
    name = read_next_speaker(ACTIONS["orchestrator"](inner).text)
    context.mistakes.extend(inner.mistakes)
    if name is None:  # nothing is left to do: whoever ends the run is to do so
        enders = [m.name for m in context.profile.team if m.role == "reporter"] or [
            m.name for m in context.profile.team if m.role == "verifier"
        ]
        name = enders[0]
    return Reply(name)


def _read_conversation(prompt: str, names: list[str]) -> list[InputMessage]:
    body = prompt.partition("The conversation so far:\n")[2].rpartition("\n\nWhich of ")[0]
    speaker = re.compile(rf"^({'|'.join(map(re.escape, ['user', *names]))}): ", re.MULTILINE)
    parts = speaker.split(body)[1:]
    return [
        InputMessage("task" if name == "user" else "message", text.strip(), "" if name == "user" else name)
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    ]


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


def _has_just_spoken(context: DecisionContext) -> bool:
    """Return whether the agent's own words are the last, so that it is for somebody else to go on."""
    last = context.messages[-1] if context.messages else None
    return last is not None and last.kind == "own" and bool(last.text)


def _hand_over(context: DecisionContext) -> Reply:
    """Pass the word on to whom the run needs next."""
    on_offer = [tool.name for tool in context.tools if tool.name.startswith(HANDOVER)]
    role = choose_next_role(context) or "reporter"
    wanted = [
        m.name.casefold() for m in context.profile.team if m.role == role and m.name != context.profile.member.name
    ]
    names = [name for name in on_offer if name.removeprefix(HANDOVER).casefold() in wanted] or on_offer
    return Reply(calls=(RequestedCall(names[0], "{}"),)) if names else ACTIONS[context.profile.member.role](context)
