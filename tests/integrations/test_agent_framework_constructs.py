"""Each construct of Microsoft Agent Framework: the whole trace that comes of a run, and the program's own outcome."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Never

import pytest
from agent_framework import (
    Agent,
    AgentExecutor,
    AgentExecutorRequest,
    AgentExecutorResponse,
    AgentMiddleware,
    AgentResponse,
    AgentSession,
    Case,
    Content,
    Default,
    Executor,
    FileCheckpointStorage,
    InMemoryCheckpointStorage,
    Message,
    WorkflowBuilder,
    WorkflowContext,
    WorkflowExecutor,
    executor,
    handler,
    response_handler,
    tool,
    workflow,
)
from agent_framework_orchestrations import (
    AgentRequestInfoResponse,
    ConcurrentBuilder,
    GroupChatBuilder,
    GroupChatState,
    HandoffAgentUserRequest,
    HandoffBuilder,
    MagenticBuilder,
    SequentialBuilder,
)

from blamespan import conventions as words
from blamespan.testing import SpanRecorder
from tests.integrations.agent_framework_runs import RuleClient, agent, call, drawn, fails, in_turn, look_up, named
from tests.integrations.drawing import literal, outline
from tests.integrations.drawing import read_messages as read


@pytest.mark.construct("Agent Framework", "Agent.run")
async def test_agent(recorder: SpanRecorder) -> None:
    """An agent that the program runs alone is a run, and its answer a message with what it was asked."""
    response = await agent("writer", "a draft").run("write")

    assert response.text == "a draft"
    assert drawn(recorder) == literal("""
        invoke_workflow writer, complete
        task: write
        agents: writer
        0 writer: message 'a draft', 1+2 tokens
        """)
    assert outline(recorder) == literal("""
        invoke_workflow writer
          invoke_agent writer
            chat rule
        """)
    (span,) = named(recorder, "invoke_agent")
    assert read(span, words.INPUT_MESSAGES) == [("user", "user", "write")]
    (chat,) = named(recorder, "chat")
    assert read(chat, words.INPUT_MESSAGES) == [
        ("system", None, "You are the writer."),
        ("user", None, "write"),
    ]


@pytest.mark.construct("Agent Framework", "Agent.run(stream=True)")
async def test_agent_streamed(recorder: SpanRecorder) -> None:
    """A streamed answer is one message, whether or not the program asks for the final response."""
    writer = agent("writer", "a draft of it", "a better draft")
    pieces = [update.text async for update in writer.run("write", stream=True)]
    final = await writer.run("again", stream=True).get_final_response()

    assert ("".join(pieces), final.text) == ("a draft of it", "a better draft")
    assert drawn(recorder) == literal("""
        invoke_workflow writer, complete
        task: write
        agents: writer
        0 writer: message 'a draft of it', 1+2 tokens
        invoke_workflow writer, complete
        task: again
        agents: writer
        0 writer: message 'a better draft', 1+2 tokens
        """)


@pytest.mark.construct("Agent Framework", "tools: answered, failing, with wrong arguments, unknown")
async def test_tools(recorder: SpanRecorder) -> None:
    """Each call and its answer are steps, also where the tool raises, refuses its arguments or does not exist."""
    writer = agent(
        "writer",
        call("look_up", city="Rome"),
        call("fails", city="Troy"),
        call("look_up", town="Rome"),
        call("nothing", x=1),
        "sunny",
        tools=[look_up, fails],
    )
    await writer.run("weather?")

    assert drawn(recorder) == literal("""
        invoke_workflow writer, complete
        task: weather?
        agents: writer
        0 writer: tool_call 'look_up({"city": "Rome"})'
        1 writer: tool_result 'sunny in Rome' after 0
        2 writer: tool_call 'fails({"city": "Troy"})' after 1, error LookupError
        3 writer: tool_result 'no such city: Troy' after 2, error LookupError
        4 writer: tool_call 'look_up({"town": "Rome"})' after 1 3, error _FunctionArgumentValidationError
        5 writer: tool_result "Invalid arguments for 'look_up': 1 validation error for look_up_input\\ncity\\n  Field required [type=missing, input_value={'town': 'Rome'}, input_type=dict]\\n    For further information visit https://errors.pydantic.dev/2.14/v/missing" after 4, error _FunctionArgumentValidationError
        6 writer: tool_call 'nothing({"x": 1})' after 1 3 5, error tool_error
        7 writer: tool_result 'Error: Requested function "nothing" not found.' after 6, error tool_error
        8 writer: message 'sunny' after 1 3 5 7, 25+10 tokens
        """)  # noqa: E501
    assert outline(recorder) == literal("""
        invoke_workflow writer
          invoke_agent writer
            chat rule
            execute_tool look_up
            chat rule
            execute_tool fails
            chat rule
            execute_tool look_up
            chat rule
            chat rule
            execute_tool nothing
        """)


@pytest.mark.construct("Agent Framework", "Agent.as_tool")
async def test_agent_as_a_tool(recorder: SpanRecorder) -> None:
    """An agent behind a tool speaks within the call, to the agent that called."""
    helper = agent("helper", "42")
    boss = agent("boss", call("helper", task="compute"), "it is 42", tools=[helper.as_tool(name="helper")])
    await boss.run("what?")

    assert drawn(recorder) == literal("""
        invoke_workflow boss, complete
        task: what?
        agents: boss, helper
        0 boss: tool_call 'helper({"task": "compute"})'
        1 helper: message '42' to boss after 0, 1+2 tokens
        2 boss: tool_result '42' after 0
        3 boss: message 'it is 42' after 2, 4+4 tokens
        """)
    assert outline(recorder) == literal("""
        invoke_workflow boss
          invoke_agent boss
            chat rule
            execute_tool helper
              invoke_agent helper
                chat rule
            chat rule
        """)


@pytest.mark.construct("Agent Framework", "SequentialBuilder")
async def test_sequential(recorder: SpanRecorder) -> None:
    """Each agent builds on all that was said before; what it was given before is not recorded again."""
    members = [
        agent("writer", "a draft"),
        agent("critic", call("look_up", city="Rome"), "too short", tools=[look_up]),
        agent("editor", "a longer draft"),
    ]
    result = await SequentialBuilder(participants=members).build().run("write")

    assert result.get_outputs()[-1].text == "a longer draft"
    assert drawn(recorder) == literal("""
        invoke_workflow Sequential, complete
        task: write
        agents: writer, critic, editor
        0 writer: message 'a draft' to critic, 1+2 tokens
        1 critic: tool_call 'look_up({"city": "Rome"})' after 0
        2 critic: tool_result 'sunny in Rome' after 1
        3 critic: message 'too short' to editor after 0 2, 6+4 tokens
        4 editor: message 'a longer draft' after 0 3, 5+2 tokens
        """)
    editor = named(recorder, "invoke_agent editor")[0]
    assert [text for _, _, text in read(editor, words.INPUT_MESSAGES)] == [
        "write",
        "a draft",
        "",
        "sunny in Rome",
        "too short",
    ]


@pytest.mark.construct("Agent Framework", "run(stream=True) of a workflow")
async def test_workflow_streamed(recorder: SpanRecorder) -> None:
    """A streamed workflow is recorded as one that is awaited."""
    members = [agent("writer", "a draft of it"), agent("critic", "too short by far")]
    stream = SequentialBuilder(participants=members).build().run("write", stream=True)
    kinds = {event.type async for event in stream}

    assert "output" in kinds
    assert drawn(recorder) == literal("""
        invoke_workflow Sequential, complete
        task: write
        agents: writer, critic
        0 writer: message 'a draft of it' to critic, 1+2 tokens
        1 critic: message 'too short by far' after 0, 2+2 tokens
        """)
    run = named(recorder, "invoke_workflow")[0]
    assert read(run, words.OUTPUT_MESSAGES) == [("assistant", "critic", "too short by far")]


@pytest.mark.construct("Agent Framework", "ConcurrentBuilder")
async def test_concurrent(recorder: SpanRecorder) -> None:
    """Agents asked at once do not build on each other; what collects their answers says nothing itself."""
    members = [agent("poet", "grey waves"), agent("sailor", "rough today")]
    await ConcurrentBuilder(participants=members).build().run("the sea")

    assert drawn(recorder) == literal("""
        invoke_workflow Concurrent, complete
        task: the sea
        agents: poet, sailor
        0 poet: message 'grey waves', 1+2 tokens
        1 sailor: message 'rough today', 1+2 tokens
        """)


@pytest.mark.construct("Agent Framework", "ConcurrentBuilder.with_aggregator")
async def test_concurrent_aggregator(recorder: SpanRecorder) -> None:
    """What an aggregator of the program's makes of the answers is a message that builds on them."""

    def sum_up(results: list[AgentExecutorResponse]) -> str:
        return " and ".join(result.agent_response.text for result in results)

    members = [agent("poet", "grey waves"), agent("sailor", "rough today")]
    builder = ConcurrentBuilder(participants=members).with_aggregator(sum_up)
    result = await builder.build().run("the sea")

    assert result.get_outputs() == ["grey waves and rough today"]
    assert drawn(recorder) == literal("""
        invoke_workflow Concurrent, complete
        task: the sea
        agents: poet, sailor, sum_up
        0 poet: message 'grey waves', 1+2 tokens
        1 sailor: message 'rough today', 1+2 tokens
        2 sum_up: message 'grey waves and rough today' after 0 1
        """)


@pytest.mark.construct("Agent Framework", "HandoffBuilder")
async def test_handoff(recorder: SpanRecorder) -> None:
    """A hand-over is a step to whom it goes; an answer goes to all and to the user, with whose reply a run goes on."""
    desk = agent("desk", call("handoff_to_expert"), "never", require_per_service_call_history_persistence=True)
    expert = agent("expert", "at nine", "you are welcome", require_per_service_call_history_persistence=True)
    builder = HandoffBuilder(name="harbour", participants=[desk, expert]).with_start_agent(desk)
    harbour = builder.add_handoff(desk, [expert]).add_handoff(expert, [desk]).build()
    result = await harbour.run("when is the tide?")
    (request,) = result.get_request_info_events()
    await harbour.run(responses={request.request_id: HandoffAgentUserRequest.create_response("thanks")})

    assert drawn(recorder) == literal("""
        invoke_workflow harbour, complete, waits
        task: when is the tide?
        agents: desk, expert
        0 desk: handoff 'handoff_to_expert({})' to expert, 1+2 tokens
        1 expert: message 'at nine' to desk, user after 0, 1+2 tokens
        invoke_workflow harbour, complete, waits
        task: when is the tide?
        agents: desk, expert
        0 expert: message 'you are welcome' to desk, user, 3+2 tokens
        """)
    first, second = named(recorder, "invoke_workflow")
    assert [(link.span_id, link.attributes) for link in second.links] == [
        (first.span_id, {words.LINK_RELATION: "continues"})
    ]


@pytest.mark.construct("Agent Framework", "GroupChatBuilder: a function selects")
async def test_group_chat(recorder: SpanRecorder) -> None:
    """What an agent says goes to all others, though an orchestrator passes it on; its own last words are its own."""

    def select(state: GroupChatState) -> str:
        return ("writer", "critic")[state.current_round % 2]

    members = [agent("writer", "a draft", "a better draft"), agent("critic", "too short"), agent("silent")]
    await GroupChatBuilder(participants=members, selection_func=select, max_rounds=3).build().run("write")

    assert drawn(recorder) == literal("""
        invoke_workflow GroupChat, complete
        task: write
        agents: writer, critic, silent, group_chat_orchestrator
        0 writer: message 'a draft' to critic, silent, 1+2 tokens
        1 critic: message 'too short' to writer, silent after 0, 2+2 tokens
        2 writer: message 'a better draft' to critic, silent after 1, 3+2 tokens
        3 group_chat_orchestrator: termination 'The group chat has reached the maximum number of rounds.' after 2
        """)


@pytest.mark.construct("Agent Framework", "GroupChatBuilder: an agent selects")
async def test_group_chat_with_an_agent(recorder: SpanRecorder) -> None:
    """The selecting agent's decision is a plan, addressed to whom it chose."""
    chief = agent(
        "chief",
        json.dumps({"terminate": False, "reason": "nothing is written", "next_speaker": "writer"}),
        json.dumps({"terminate": True, "reason": "it is good", "final_message": "All done."}),
    )
    members = [agent("writer", "a draft"), agent("critic")]
    await GroupChatBuilder(participants=members, orchestrator_agent=chief).build().run("write")

    assert drawn(recorder) == literal("""
        invoke_workflow GroupChat, complete
        task: write
        agents: chief, writer, critic
        0 chief: plan '{"terminate": false, "reason": "nothing is written", "next_speaker": "writer"}' to writer, 2+2 tokens
        1 writer: message 'a draft' to critic, chief after 0, 1+2 tokens
        2 chief: plan '{"terminate": true, "reason": "it is good", "final_message": "All done."}' after 1, 5+2 tokens
        3 chief: termination 'All done.' after 1 2
        """)  # noqa: E501


def _ledger(*, is_done: bool, instruction: str) -> str:
    answers = {
        "is_request_satisfied": is_done,
        "is_in_loop": False,
        "is_progress_being_made": True,
        "next_speaker": "writer",
        "instruction_or_question": instruction,
    }
    return json.dumps({key: {"reason": "so", "answer": answer} for key, answer in answers.items()})


@pytest.mark.construct("Agent Framework", "MagenticBuilder")
async def test_magentic(recorder: SpanRecorder) -> None:
    """The manager's facts, plan and ledgers are plans, the ledger to whom it asks; its final answer is a message."""
    manager = agent(
        "manager",
        "no facts",
        "ask the writer",
        _ledger(is_done=False, instruction="write"),
        _ledger(is_done=True, instruction="-"),
        "a fine draft",
    )
    members = [agent("writer", "a draft"), agent("critic")]
    result = await MagenticBuilder(participants=members, manager_agent=manager).build().run("write")

    assert result.get_outputs()[-1].text == "a fine draft"
    assert drawn(recorder) == literal("""
        invoke_workflow Magentic, complete
        task: write
        agents: manager, writer, critic
        0 manager: plan 'no facts', 2+2 tokens
        1 manager: plan 'ask the writer' after 0, 4+2 tokens
        2 manager: plan '{"is_request_satisfied": {"reason": "so", "answer": false}, "is_in_loop": {"reason": "so", "answer": false}, "is_progress_being_made": {"reason": "so", "answer": true}, "next_speaker": {"reason": "so", "answer": "writer"}, "instruction_or_question": {"reason": "so", "answer": "write"}}' to writer after 0 1, 3+2 tokens
        3 writer: message 'a draft' to critic, manager after 2, 1+2 tokens
        4 manager: plan '{"is_request_satisfied": {"reason": "so", "answer": true}, "is_in_loop": {"reason": "so", "answer": false}, "is_progress_being_made": {"reason": "so", "answer": true}, "next_speaker": {"reason": "so", "answer": "writer"}, "instruction_or_question": {"reason": "so", "answer": "-"}}' after 3, 5+2 tokens
        5 manager: message 'a fine draft' after 3 4, 5+2 tokens
        """)  # noqa: E501


class Shout(Executor):
    """An executor of the program's."""

    @handler
    async def shout(self, text: str, context: WorkflowContext[str, str]) -> None:
        await context.send_message(text.upper())
        await context.yield_output(text.upper())


class Keep(Executor):
    """Ends a workflow."""

    @handler
    async def keep(self, text: str, context: WorkflowContext[Never, str]) -> None:
        await context.yield_output(f"kept: {text}")

    @handler
    async def keep_response(self, response: AgentResponse, context: WorkflowContext[Never, str]) -> None:
        await context.yield_output(f"kept: {response.text}")


@pytest.mark.construct("Agent Framework", "Executor: what it sends and yields")
async def test_executors(recorder: SpanRecorder) -> None:
    """What an executor of the program's sends is its message, once, also where it yields the same."""
    start, end = Shout("shout"), Keep("keep")
    result = await WorkflowBuilder(start_executor=start, name="loud").add_edge(start, end).build().run("hey")

    assert result.get_outputs() == ["HEY", "kept: HEY"]
    assert drawn(recorder) == literal("""
        invoke_workflow loud, complete
        task: hey
        agents: shout, keep
        0 shout: message 'HEY' to keep
        1 keep: message 'kept: HEY' after 0
        """)


@pytest.mark.construct("Agent Framework", "fan-out, fan-in, executor functions")
async def test_fan_out_and_in(recorder: SpanRecorder) -> None:
    """Different messages of one call are different steps, and each receiver builds on the one it got."""

    @executor(id="split")
    async def split(text: str, context: WorkflowContext[str]) -> None:
        for target, word in zip(("left", "right"), text.split(), strict=True):
            await context.send_message(word, target_id=target)

    @executor(id="join")
    async def join(words: list[str], context: WorkflowContext[Never, str]) -> None:
        await context.yield_output(" ".join(words))

    left, right = Shout("left"), Shout("right")
    builder = WorkflowBuilder(start_executor=split, name="fan", output_from=[join])
    builder = builder.add_fan_out_edges(split, [left, right]).add_fan_in_edges([left, right], join)
    result = await builder.build().run("two words")

    assert result.get_outputs() == ["TWO WORDS"]
    assert drawn(recorder) == literal("""
        invoke_workflow fan, complete
        task: two words
        agents: split, left, right, join
        0 split: message 'two' to left
        1 split: message 'words' to right
        2 left: message 'TWO' to join after 0
        3 right: message 'WORDS' to join after 1
        4 join: message 'TWO WORDS' after 2 3
        """)


@pytest.mark.construct("Agent Framework", "switch-case and conditional edges")
async def test_conditions(recorder: SpanRecorder) -> None:
    """Whom a condition leads to is said by what the receiver builds on, not by the sender's recipients."""
    start, even, odd, after = Shout("shout"), Keep("even"), Keep("odd"), Keep("after")
    builder = WorkflowBuilder(start_executor=start, name="switch")
    builder = builder.add_switch_case_edge_group(
        start, [Case(condition=lambda text: len(text) % 2 == 0, target=even), Default(target=odd)]
    )
    builder = builder.add_edge(start, after, condition=lambda text: "!" in text)
    await builder.build().run("hey")

    assert drawn(recorder) == literal("""
        invoke_workflow switch, complete
        task: hey
        agents: shout, odd
        0 shout: message 'HEY'
        1 odd: message 'kept: HEY' after 0
        """)


@pytest.mark.construct("Agent Framework", "an executor that runs agents and tools itself")
async def test_executor_with_an_agent(recorder: SpanRecorder) -> None:
    """An agent's answer that its executor passes on is the agent's alone; tools called by hand are the executor's."""
    inner, end = agent("inner", "hello"), AgentExecutor(agent("end", "bye"))

    class Wrap(Executor):
        @handler
        async def wrap(self, text: str, context: WorkflowContext[AgentExecutorRequest, str]) -> None:
            response = await inner.run(text)
            (weather,) = await look_up.invoke(arguments={"city": "Rome"})
            await context.send_message(AgentExecutorRequest(messages=response.messages))
            await context.yield_output(f"and {weather.text}")

    start = Wrap("wrap")
    await WorkflowBuilder(start_executor=start, name="wrapped").add_edge(start, end).build().run("hi")

    assert drawn(recorder) == literal("""
        invoke_workflow wrapped, complete
        task: hi
        agents: end, inner, wrap
        0 inner: message 'hello' to wrap, 1+2 tokens
        1 wrap: tool_call 'look_up({"city": "Rome"})' after 0
        2 wrap: tool_result 'sunny in Rome' after 1
        3 wrap: message 'and sunny in Rome' after 0 2
        4 end: message 'bye' after 0 2, 1+2 tokens
        """)


@pytest.mark.construct("Agent Framework", "WorkflowExecutor: a workflow within a workflow")
async def test_sub_workflow(recorder: SpanRecorder) -> None:
    """The inner workflow is a run within the run; its last message goes on in the outer one."""
    inner = SequentialBuilder(participants=[agent("a", "one"), agent("b", "two")]).build()
    start, within, end = Shout("shout"), WorkflowExecutor(inner, id="inner"), Keep("keep")
    builder = WorkflowBuilder(start_executor=start, name="outer").add_edge(start, within).add_edge(within, end)
    await builder.build().run("go")

    assert drawn(recorder) == literal("""
        invoke_workflow outer, complete
        task: go
        agents: shout, a, b, keep
        0 shout: message 'GO' to a
        1 a: message 'one' to b after 0, 1+2 tokens
        2 b: message 'two' to keep after 1, 2+2 tokens
        3 keep: message 'kept: two' after 2
        """)
    assert outline(recorder) == literal("""
        invoke_workflow outer
          invoke_workflow Sequential
            invoke_agent a
              chat rule
            invoke_agent b
              chat rule
          invoke_agent shout
          invoke_agent keep
        """)


@pytest.mark.construct("Agent Framework", "Workflow.as_agent")
async def test_workflow_as_an_agent(recorder: SpanRecorder) -> None:
    """A workflow used as an agent is a run of its own, or within that of the workflow it is an agent of."""
    duo = SequentialBuilder(participants=[agent("a", "one"), agent("b", "two")]).build().as_agent(name="duo")
    await SequentialBuilder(participants=[duo, agent("c", "three")]).build().run("go")

    assert drawn(recorder) == literal("""
        invoke_workflow Sequential, complete
        task: go
        agents: c, a, b
        0 a: message 'one' to b, 1+2 tokens
        1 b: message 'two' after 0, 2+2 tokens
        2 c: message 'three' after 1, 2+2 tokens
        """)


@pytest.mark.construct("Agent Framework", "@workflow: functional workflows")
@pytest.mark.filterwarnings("ignore::agent_framework._feature_stage.ExperimentalWarning")
async def test_functional_workflow(recorder: SpanRecorder) -> None:
    """Agents called by a workflow's function are steps of its run; one that got another's words builds on them."""

    @workflow
    async def flow(question: str) -> str:
        first = await agent("a", "one").run(question)
        return (await agent("b", "two").run(first.text)).text

    result = await flow.build().run("go")

    assert result.get_outputs() == ["two"]
    assert drawn(recorder) == literal("""
        invoke_workflow flow, complete
        task: go
        agents: a, b
        0 a: message 'one', 1+2 tokens
        1 b: message 'two' after 0, 1+2 tokens
        """)


class Seller(Executor):
    """Asks before it sells."""

    @handler
    async def ask(self, text: str, context: WorkflowContext) -> None:
        await context.request_info(f"may I {text}?", str)

    @response_handler
    async def sell(self, question: str, answer: str, context: WorkflowContext[Never, str]) -> None:
        await context.yield_output(f"{question} {answer}: sold")


@pytest.mark.construct("Agent Framework", "request_info: a person answers")
async def test_request_info(recorder: SpanRecorder) -> None:
    """A question is a message to the user at which the run waits; the run with the answer links to it."""
    market = WorkflowBuilder(start_executor=Seller("seller"), name="market").build()
    result = await market.run("sell")
    (request,) = result.get_request_info_events()
    await market.run(responses={request.request_id: "yes"})

    assert drawn(recorder) == literal("""
        invoke_workflow market, complete, waits
        task: sell
        agents: seller
        0 seller: message 'may I sell?' to user
        invoke_workflow market, complete
        task: sell
        agents: seller
        0 seller: message 'may I sell? yes: sold'
        """)
    first, second = named(recorder, "invoke_workflow")
    assert [link.span_id for link in second.links] == [first.span_id]
    assert read(named(recorder, "invoke_agent")[1], words.INPUT_MESSAGES) == [("user", "user", "yes")]


@pytest.mark.construct("Agent Framework", "tools that need approval")
async def test_approval(recorder: SpanRecorder) -> None:
    """A call that waits for approval is what the agent says to the user; approved, it is the next run's first step."""

    @tool(approval_mode="always_require")
    def sell(count: int) -> str:
        """Sell."""
        return f"sold {count}"

    seller = agent("seller", call("sell", count=3), "done", tools=[sell])
    market = SequentialBuilder(participants=[seller, agent("clerk", "noted")]).build()
    result = await market.run("sell 3")
    (request,) = result.get_request_info_events()
    await market.run(responses={request.request_id: request.data.to_function_approval_response(True)})

    assert drawn(recorder) == literal("""
        invoke_workflow Sequential, complete, waits
        task: sell 3
        agents: seller, clerk
        0 seller: message 'sell({"count": 3})' to user, 1+2 tokens
        invoke_workflow Sequential, complete
        task: sell 3
        agents: seller, clerk
        0 seller: tool_call 'sell({"count": 3})'
        1 seller: tool_result 'sold 3' after 0
        2 seller: message 'done' to clerk after 1, 3+2 tokens
        3 clerk: message 'noted' after 2, 2+2 tokens
        """)


@pytest.mark.construct("Agent Framework", "checkpoints: a run that goes on from one")
async def test_checkpoint(recorder: SpanRecorder) -> None:
    """A run that goes on from a checkpoint links to the run that saved it, and keeps what was asked first."""
    storage = InMemoryCheckpointStorage()

    def build() -> Any:
        return SequentialBuilder(
            participants=[agent("a", "one"), agent("b", "two")], checkpoint_storage=storage
        ).build()

    first = build()
    await first.run("go")
    saved = sorted(await storage.list_checkpoints(workflow_name=first.name), key=lambda item: item.iteration_count)
    result = await build().run(checkpoint_id=saved[2].checkpoint_id)

    assert result.get_outputs()[-1].text == "two"
    assert [checkpoint.metadata for checkpoint in saved] == [{}] * len(saved)
    assert drawn(recorder) == literal("""
        invoke_workflow Sequential, complete
        task: go
        agents: a, b
        0 a: message 'one' to b, 1+2 tokens
        1 b: message 'two' after 0, 2+2 tokens
        invoke_workflow Sequential, complete
        task: go
        agents: a, b
        0 b: message 'two', 2+2 tokens
        """)
    one, two = named(recorder, "invoke_workflow")
    assert [(link.span_id, link.attributes) for link in two.links] == [
        (one.span_id, {words.LINK_RELATION: "continues"})
    ]


@pytest.mark.construct("Agent Framework", "an agent that raises")
async def test_agent_raises(recorder: SpanRecorder) -> None:
    """The failing agent's step has the error, the run too, and the program gets what was raised."""

    def fail(_: object) -> str:
        raise LookupError("no model")

    team = SequentialBuilder(participants=[agent("a", "one"), agent("b", rule=fail)]).build()
    with pytest.raises(LookupError, match="no model"):
        await team.run("go")

    assert drawn(recorder) == literal("""
        invoke_workflow Sequential, complete, LookupError
        task: go
        agents: a, b
        outcome: failed
        0 a: message 'one' to b, 1+2 tokens
        1 b: message '' after 0, error LookupError
        """)


@pytest.mark.construct("Agent Framework", "an executor that raises")
async def test_executor_raises(recorder: SpanRecorder) -> None:
    """An executor of the program's that raises is a step with the error."""

    @executor(id="broken")
    async def broken(text: str, context: WorkflowContext[str]) -> None:
        raise ValueError(f"cannot {text}")

    with pytest.raises(ValueError, match="cannot go"):
        await WorkflowBuilder(start_executor=broken, name="broken").build().run("go")

    assert drawn(recorder) == literal("""
        invoke_workflow broken, complete, ValueError
        task: go
        agents: broken
        outcome: failed
        0 broken: message '', error ValueError
        """)


@pytest.mark.construct("Agent Framework", "a run that the program cancels")
async def test_cancelled(recorder: SpanRecorder) -> None:
    """The run is incomplete, the agent at work is marked as cancelled, and nobody has failed."""
    slow = Agent(RuleClient(in_turn("never"), delay=lambda: asyncio.sleep(60)), name="slow")
    team = SequentialBuilder(participants=[agent("a", "one"), slow]).build()
    task = asyncio.create_task(team.run("go"))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert drawn(recorder) == literal("""
        invoke_workflow Sequential, incomplete
        task: go
        agents: a, slow
        0 a: message 'one' to slow, 1+2 tokens
        1 slow: message '' after 0, blamespan.step.cancelled=True
        """)


@pytest.mark.construct("Agent Framework", "a stream that the program leaves")
async def test_left_stream(recorder: SpanRecorder) -> None:
    """A stream left early ends as cancelled, with what was said until then."""
    async with agent("writer", "a draft of it").run("write", stream=True) as stream:
        async for _ in stream:
            break

    assert drawn(recorder) == literal("""
        invoke_workflow writer, incomplete
        task: write
        agents: writer
        0 writer: message 'a', blamespan.step.cancelled=True
        """)


async def test_two_runs_at_once(recorder: SpanRecorder) -> None:
    """Runs that go on at once are traces of their own, and neither has a step of the other."""

    def build(name: str) -> Any:
        client = RuleClient(lambda messages: f"{name}: {len(messages)}", delay=lambda: asyncio.sleep(0.01))
        return SequentialBuilder(participants=[Agent(client, name=f"{name}{n}") for n in range(3)]).build()

    await asyncio.gather(*(build(name).run(name) for name in ("x", "y")))

    runs = {span.trace_id: [] for span in recorder.spans()}
    for span in named(recorder, "invoke_agent"):
        runs[span.trace_id].append(span.name)
    assert sorted(runs.values()) == [[f"invoke_agent {name}{n}" for n in range(3)] for name in ("x", "y")]


async def test_agents_in_a_span_of_the_program(recorder: SpanRecorder) -> None:
    """Agents that the program calls in turn within a span of its own are steps of one trace, in order."""
    with recorder.provider.get_tracer("program").start_as_current_span("request"):
        first = await agent("a", "one").run("go")
        await agent("b", "two").run(first.text)

    steps = named(recorder, "invoke_agent")
    assert [step.attributes[words.STEP_INDEX] for step in steps] == [0, 1]
    assert [link.span_id for link in steps[1].links] == [steps[0].span_id]


async def test_checkpoint_of_another_process(recorder: SpanRecorder, tmp_path: Any) -> None:
    """Where the program asks for it, the run stands in the checkpoint's metadata, and a run elsewhere links to it."""
    from blamespan_integrations.agent_framework import AgentFrameworkInstrumentor, _runs

    AgentFrameworkInstrumentor().uninstrument()
    AgentFrameworkInstrumentor().instrument(tracer_provider=recorder.provider, link_checkpoints=True)
    storage = FileCheckpointStorage(tmp_path)

    def build() -> Any:
        start, end = Shout("shout"), Keep("keep")
        builder = WorkflowBuilder(start_executor=start, name="loud", checkpoint_storage=storage)
        return builder.add_edge(start, end).build()

    await build().run("hey")
    saved = sorted(await storage.list_checkpoints(workflow_name="loud"), key=lambda item: item.iteration_count)
    _runs._checkpoints.clear()  # as in another process
    await build().run(checkpoint_id=saved[1].checkpoint_id)

    one, two = named(recorder, "invoke_workflow")
    assert [link.span_id for link in two.links] == [one.span_id]
    assert [sorted(checkpoint.metadata) for checkpoint in saved] == [["blamespan.run"]] * len(saved)


@pytest.mark.construct("Agent Framework", "with_request_info: a person reads each answer")
async def test_answers_that_a_person_reads(recorder: SpanRecorder) -> None:
    """An agent's answer goes to the user at which the run waits; approved, it goes on without being said again."""
    builder = SequentialBuilder(participants=[agent("a", "one", "one again"), agent("b", "two")])
    team = builder.with_request_info(agents=["a"]).build()
    result = await team.run("go")
    for reply in (AgentRequestInfoResponse.from_strings(["better"]), AgentRequestInfoResponse.approve()):
        (request,) = result.get_request_info_events()
        result = await team.run(responses={request.request_id: reply})

    assert result.get_outputs()[-1].text == "two"
    assert drawn(recorder) == literal("""
        invoke_workflow Sequential, complete, waits
        task: go
        agents: b, a
        0 a: message 'one' to user, 1+2 tokens
        invoke_workflow Sequential, complete, waits
        task: go
        agents: b, a
        0 a: message 'one again' to user, 3+2 tokens
        invoke_workflow Sequential, complete
        task: go
        agents: b
        0 b: message 'two', 2+2 tokens
        """)


@pytest.mark.construct("Agent Framework", "MagenticBuilder: a person reviews the plan")
async def test_magentic_plan_review(recorder: SpanRecorder) -> None:
    """The plan goes to the user, and the run with the approval goes on from there."""
    ledgers = _ledger(is_done=False, instruction="write"), _ledger(is_done=True, instruction="-")
    manager = agent("manager", "no facts", "ask the writer", *ledgers, "a fine draft")
    builder = MagenticBuilder(participants=[agent("writer", "a draft")], manager_agent=manager, enable_plan_review=True)
    team = builder.build()
    (request,) = (await team.run("write")).get_request_info_events()
    await team.run(responses={request.request_id: request.data.approve()})

    assert drawn(recorder) == literal("""
        invoke_workflow Magentic, complete, waits
        task: write
        agents: manager, writer
        0 manager: plan 'no facts', 2+2 tokens
        1 manager: plan 'ask the writer' to user after 0, 4+2 tokens
        invoke_workflow Magentic, complete
        task: write
        agents: manager, writer
        0 manager: plan '{"is_request_satisfied": {"reason": "so", "answer": false}, "is_in_loop": {"reason": "so", "answer": false}, "is_progress_being_made": {"reason": "so", "answer": true}, "next_speaker": {"reason": "so", "answer": "writer"}, "instruction_or_question": {"reason": "so", "answer": "write"}}' to writer, 3+2 tokens
        1 writer: message 'a draft' to manager after 0, 1+2 tokens
        2 manager: plan '{"is_request_satisfied": {"reason": "so", "answer": true}, "is_in_loop": {"reason": "so", "answer": false}, "is_progress_being_made": {"reason": "so", "answer": true}, "next_speaker": {"reason": "so", "answer": "writer"}, "instruction_or_question": {"reason": "so", "answer": "-"}}' after 1, 5+2 tokens
        3 manager: message 'a fine draft' after 1 2, 5+2 tokens
        """)  # noqa: E501


@pytest.mark.construct("Agent Framework", "tools called at once")
async def test_tools_called_at_once(recorder: SpanRecorder) -> None:
    """Calls of one answer do not build on each other's results."""
    cities = ("Rome", "Oslo")
    calls = [
        Content.from_function_call(call_id=city, name="look_up", arguments=json.dumps({"city": city}))
        for city in cities
    ]
    await agent("a", calls, "done", tools=[look_up]).run("weather?")

    assert drawn(recorder) == literal("""
        invoke_workflow a, complete
        task: weather?
        agents: a
        0 a: tool_call 'look_up({"city": "Rome"})'
        1 a: tool_call 'look_up({"city": "Oslo"})'
        2 a: tool_result 'sunny in Rome' after 0
        3 a: tool_result 'sunny in Oslo' after 1
        4 a: message 'done' after 2 3, 4+4 tokens
        """)


@pytest.mark.construct("Agent Framework", "agent middleware that answers itself, or asks twice")
async def test_agent_middleware(recorder: SpanRecorder) -> None:
    """Whatever middleware does between, an agent's turn is one message: the one that its caller gets."""

    class Answers(AgentMiddleware):
        async def process(self, context: Any, call_next: Any) -> None:
            context.result = AgentResponse(messages=[Message("assistant", ["instead"])])

    class Twice(AgentMiddleware):
        async def process(self, context: Any, call_next: Any) -> None:
            await call_next()
            await call_next()

    instead = await agent("a", "never", middleware=[Answers()]).run("go")
    second = await agent("b", "one", "two", middleware=[Twice()]).run("go")

    assert (instead.text, second.text) == ("instead", "two")
    assert drawn(recorder) == literal("""
        invoke_workflow a, complete
        task: go
        agents: a
        0 a: message 'instead'
        invoke_workflow b, complete
        task: go
        agents: b
        0 b: message 'two', 2+4 tokens
        """)


@pytest.mark.construct("Agent Framework", "an agent of the program's own class")
async def test_agent_of_another_class(recorder: SpanRecorder) -> None:
    """An agent that is no `BaseAgent` speaks by its executor, in order."""

    class Duck:
        id = name = "duck"
        description = "quacks"

        def create_session(self, **_: Any) -> AgentSession:
            return AgentSession()

        get_session = create_session

        async def run(self, messages: Any = None, **_: Any) -> AgentResponse:
            return AgentResponse(messages=[Message("assistant", ["quack"])])

    await SequentialBuilder(participants=[agent("a", "one"), Duck(), agent("b", "two")]).build().run("go")

    assert drawn(recorder) == literal("""
        invoke_workflow Sequential, complete
        task: go
        agents: a, duck, b
        0 a: message 'one' to duck, 1+2 tokens
        1 duck: message 'quack' to b after 0
        2 b: message 'two' after 0 1, 3+2 tokens
        """)


@pytest.mark.construct("Agent Framework", "an executor that passes on what it received")
async def test_executor_that_passes_on(recorder: SpanRecorder) -> None:
    """A router of the program's says nothing; whoever it sends to builds on the author."""

    @executor(id="router")
    async def route(text: str, context: WorkflowContext[str]) -> None:
        await context.send_message(text, target_id="keep")

    start, end = Shout("shout"), Keep("keep")
    builder = WorkflowBuilder(start_executor=start, name="routed", output_from=[end])
    result = await builder.add_edge(start, route).add_edge(route, end).build().run("hey")

    assert result.get_outputs() == ["kept: HEY"]
    assert drawn(recorder) == literal("""
        invoke_workflow routed, complete
        task: hey
        agents: shout, keep
        0 shout: message 'HEY' to router
        1 keep: message 'kept: HEY' after 0
        """)
