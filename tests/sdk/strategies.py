"""Hypothesis strategies for records, shared by the SDK's property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from blamespan import conventions as words
from blamespan.trace import Agent, MessageActionTrace, Step, Usage

names = st.text(min_size=1, max_size=12)
texts = st.text(max_size=60) | st.sampled_from(["[]", '[{"role":"user","parts":[]}]', "add({})", "null", "{"])
inputs = texts | st.sampled_from(["add({})", "plan: ask\n- ask", "\n\n", "ask the clerk for the list of orders"])
scalars = st.text(max_size=8) | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
attribute_values = scalars | st.lists(st.text(max_size=5), max_size=3).map(tuple)
keys = st.sampled_from(["custom.key", words.TOOL_NAME, words.MESSAGE_ID, words.INPUT_MESSAGES, words.AGENT_ID])
attributes = st.dictionaries(keys, attribute_values, max_size=3)
statuses = st.sampled_from(["unset", "ok", "error"])
kinds = st.sampled_from(["message", "tool_call", "tool_result", "handoff", "memory", "plan", "termination"])


@st.composite
def traces(draw: st.DrawFn) -> MessageActionTrace:
    """Any valid run: all kinds, shared tool spans, agents that never speak, hostile text."""
    agents = draw(
        st.lists(
            st.builds(
                Agent, names, st.sampled_from(["agent", "user", "executor"]), st.none() | texts, st.none() | texts
            ),
            min_size=1,
            max_size=4,
            unique_by=lambda agent: agent.name,
        )
    )
    steps: list[Step] = []
    for index in range(draw(st.integers(0, 8))):
        open_calls = [
            s for s in steps if s.kind == "tool_call" and not any(o.span_id == s.span_id and o is not s for o in steps)
        ]
        if open_calls and draw(st.booleans()):
            steps.append(_answer(draw, index, draw(st.sampled_from(open_calls))))
        else:
            steps.append(_step(draw, index, draw(st.sampled_from(agents)).name))
    return MessageActionTrace(
        trace_id=f"{draw(st.integers(1, 2**128 - 1)):032x}",
        task=draw(texts),
        steps=tuple(steps),
        agents=tuple(agents),
        outcome=draw(st.sampled_from(["succeeded", "failed", "unknown"])),
        resource=draw(st.dictionaries(names, scalars, max_size=2)),
    )


def _answer(draw: Any, index: int, call: Step) -> Step:
    return Step(
        index,
        call.span_id,
        call.agent,
        "tool_result",
        draw(texts),
        inputs=(call.index,),
        status=call.status,
        error=call.error,
        start_ns=call.start_ns,
        end_ns=call.end_ns,
    )


def _step(draw: Any, index: int, agent: str) -> Step:
    start = draw(st.integers(0, 2**62))
    return Step(
        index=index,
        span_id=f"{index + 1:016x}",
        agent=agent,
        kind=draw(kinds),
        content=draw(texts),
        recipients=tuple(draw(st.lists(names, max_size=2))),
        inputs=tuple(sorted(draw(st.sets(st.integers(0, index - 1), max_size=3)))) if index else (),
        status=draw(statuses),
        error=draw(st.none() | names),
        start_ns=start,
        end_ns=start + draw(st.integers(0, 2**61)),
        usage=draw(st.none() | st.builds(Usage, st.integers(0, 10**9), st.integers(0, 10**9))),
        attributes=draw(attributes),
        input_text=draw(inputs),
    )
