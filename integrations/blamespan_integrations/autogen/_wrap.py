"""What of AutoGen we patch, and only that."""

from __future__ import annotations

from typing import Any

from autogen_agentchat.agents import AssistantAgent, MessageFilterAgent
from autogen_agentchat.base import ChatAgent, Team
from autogen_core import AgentRuntime, BaseAgent
from autogen_core.code_executor import CodeExecutor
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import BaseTool, FunctionTool, Workbench

from blamespan_integrations.autogen import _own_tracing
from blamespan_integrations.autogen._agents import agent_start
from blamespan_integrations.autogen._conversations import Conversations
from blamespan_integrations.autogen._frames import recorded_call, recorded_stream
from blamespan_integrations.autogen._mail import Letters
from blamespan_integrations.autogen._managers import overheard
from blamespan_integrations.autogen._memory import recalled
from blamespan_integrations.autogen._models import model_start
from blamespan_integrations.autogen._patches import Patches
from blamespan_integrations.autogen._runs import agent_run_start
from blamespan_integrations.autogen._runtime import carried, delivered, franked
from blamespan_integrations.autogen._teams import PAUSES, RESUMES, begun_anew, marked, team_start
from blamespan_integrations.autogen._tools import (
    agent_tool_start,
    code_start,
    in_thread,
    tool_start,
    workbench_start,
)
from blamespan_integrations.recording import Recorder

__all__ = ["wrap"]


def wrap(recorder: Recorder) -> Patches:
    """Have AutoGen's teams, agents, tools and model clients recorded by *recorder*.

    If a part of AutoGen is not as we know it, nothing is patched at all and the error is raised.
    """
    patches, conversations = Patches(), Conversations()
    letters = Letters(conversations)
    try:
        _own_tracing.silence(patches, letters)
        _wrap_runtime(patches, recorder, letters)
        _wrap_classes(patches, recorder, conversations)
        patches.outlast_others()
    except BaseException:
        patches.undo()
        raise
    return patches


def _wrap_classes(patches: Patches, recorder: Recorder, conversations: Conversations) -> None:
    team, alone, agent = team_start(recorder), agent_run_start(recorder), agent_start(recorder, conversations)
    workbench, tool, model = workbench_start(recorder), tool_start(recorder), model_start(recorder)
    patches.cover(
        Team,
        {
            "run": recorded_call(patches, team),
            "run_stream": recorded_stream(patches, team),
            "pause": marked(patches, PAUSES),
            "resume": marked(patches, RESUMES),
            "reset": begun_anew(patches),
        },
    )
    patches.cover(ChatAgent, {"run": recorded_call(patches, alone), "run_stream": recorded_stream(patches, alone)})
    patches.cover(
        ChatAgent,
        {
            "on_messages": recorded_call(patches, agent),
            "on_messages_stream": recorded_stream(patches, agent),
            "load_state": recalled(patches),
        },
        leave_out=frozenset({MessageFilterAgent}),  # says nothing itself: its message is the wrapped agent's
    )
    patches.cover(
        Workbench,
        {"call_tool": recorded_call(patches, workbench), "call_tool_stream": recorded_stream(patches, workbench)},
    )
    patches.cover(
        BaseTool,
        {"run_json": recorded_call(patches, tool), "run_json_stream": recorded_stream(patches, tool)},
    )
    patches.wrap(FunctionTool, "run", in_thread(patches))
    patches.cover(CodeExecutor, {"execute_code_blocks": recorded_call(patches, code_start(recorder))})
    patches.cover(
        ChatCompletionClient,
        {"create": recorded_call(patches, model), "create_stream": recorded_stream(patches, model)},
    )


def _wrap_runtime(patches: Patches, recorder: Recorder, letters: Letters) -> None:
    patches.cover(
        AgentRuntime,
        {
            "send_message": carried(patches, letters, is_rpc=True),
            "publish_message": carried(patches, letters, is_rpc=False),
            "_send_message": franked(patches),
        },
    )
    patches.wrap(BaseAgent, "on_message", delivered(patches, recorder, letters))
    patches.wrap(BaseAgent, "publish_message", overheard(patches))
    call_tool = recorded_call(patches, agent_tool_start(recorder))

    def static(found: Any) -> Any:
        # looked up, not `__func__`: that would go past another instrumentation's wrapper
        return (
            staticmethod(call_tool(found.__get__(None, AssistantAgent))) if isinstance(found, staticmethod) else found
        )

    patches.wrap(AssistantAgent, "_execute_tool_call", static)  # private: the layers below do without it
