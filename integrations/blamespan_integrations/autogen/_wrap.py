"""What of AutoGen we patch, and only that."""

from __future__ import annotations

from functools import partial
from typing import Any

from autogen_agentchat.agents import AssistantAgent, MessageFilterAgent
from autogen_agentchat.base import ChatAgent, Team
from autogen_core import AgentRuntime, BaseAgent
from autogen_core.code_executor import CodeExecutor
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import BaseTool, FunctionTool, Workbench

from blamespan_integrations.autogen import _own_tracing
from blamespan_integrations.autogen._agents import agent_start
from blamespan_integrations.autogen._frames import wrap_call, wrap_stream
from blamespan_integrations.autogen._managers import notice_publish
from blamespan_integrations.autogen._memory import TraceMemories, wrap_load_state
from blamespan_integrations.autogen._models import model_start
from blamespan_integrations.autogen._runs import PAUSES, RESUMES, agent_run_start, notice_pause, team_start, wrap_reset
from blamespan_integrations.autogen._runtime import SentMessages, wrap_grpc_send, wrap_on_message, wrap_post
from blamespan_integrations.autogen._tools import (
    agent_tool_start,
    code_start,
    tool_start,
    workbench_start,
    wrap_function_tool,
)
from blamespan_integrations.patching import Patches, wrap_notice
from blamespan_integrations.recording import Recorder

_PAUSE = "autogen: note that a team is paused or goes on"


def wrap(recorder: Recorder) -> Patches:
    """Have AutoGen's teams, agents, tools and model clients recorded by *recorder*.

    If a part of AutoGen is not as we know it, nothing is patched at all and the error is raised.
    """
    patches, conversations = Patches("autogen"), TraceMemories()
    sent_messages = SentMessages(conversations)
    try:
        _own_tracing.silence_own_tracing(patches, sent_messages)
        _wrap_runtime(patches, recorder, sent_messages)
        _wrap_classes(patches, recorder, conversations)
        patches.outlast_others()
    except BaseException:
        patches.undo()
        raise
    return patches


def _wrap_classes(patches: Patches, recorder: Recorder, conversations: TraceMemories) -> None:
    team, alone, agent = team_start(recorder), agent_run_start(recorder), agent_start(recorder, conversations)
    workbench, tool, model = workbench_start(recorder), tool_start(recorder), model_start(recorder)
    patches.cover(
        Team,
        {
            "run": wrap_call(patches, team),
            "run_stream": wrap_stream(patches, team),
            "pause": wrap_notice(patches, _PAUSE, partial(notice_pause, PAUSES)),
            "resume": wrap_notice(patches, _PAUSE, partial(notice_pause, RESUMES)),
            "reset": wrap_reset(patches),
        },
    )
    patches.cover(ChatAgent, {"run": wrap_call(patches, alone), "run_stream": wrap_stream(patches, alone)})
    patches.cover(
        ChatAgent,
        {
            "on_messages": wrap_call(patches, agent),
            "on_messages_stream": wrap_stream(patches, agent),
            "load_state": wrap_load_state(patches),
        },
        leave_out=frozenset({MessageFilterAgent}),  # says nothing itself: its message is the wrapped agent's
    )
    patches.cover(
        Workbench,
        {"call_tool": wrap_call(patches, workbench), "call_tool_stream": wrap_stream(patches, workbench)},
    )
    patches.cover(
        BaseTool,
        {"run_json": wrap_call(patches, tool), "run_json_stream": wrap_stream(patches, tool)},
    )
    patches.wrap(FunctionTool, "run", wrap_function_tool(patches))
    patches.cover(CodeExecutor, {"execute_code_blocks": wrap_call(patches, code_start(recorder))})
    patches.cover(
        ChatCompletionClient,
        {"create": wrap_call(patches, model), "create_stream": wrap_stream(patches, model)},
    )


def _wrap_runtime(patches: Patches, recorder: Recorder, sent_messages: SentMessages) -> None:
    patches.cover(
        AgentRuntime,
        {
            "send_message": wrap_post(patches, sent_messages, is_rpc=True),
            "publish_message": wrap_post(patches, sent_messages, is_rpc=False),
            "_send_message": wrap_grpc_send(patches),
        },
    )
    patches.wrap(BaseAgent, "on_message", wrap_on_message(patches, recorder, sent_messages))
    publish = wrap_notice(patches, "autogen: record a manager's message", notice_publish)
    patches.wrap(BaseAgent, "publish_message", publish)
    call_tool = wrap_call(patches, agent_tool_start(recorder))

    def static(method: Any) -> Any:
        # looked up, not `__func__`: that would go past another instrumentation's wrapper
        return (
            staticmethod(call_tool(method.__get__(None, AssistantAgent)))
            if isinstance(method, staticmethod)
            else method
        )

    patches.wrap(AssistantAgent, "_execute_tool_call", static)  # private: the layers below do without it
