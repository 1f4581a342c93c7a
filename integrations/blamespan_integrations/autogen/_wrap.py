"""What of AutoGen we patch, and only that."""

from __future__ import annotations

from autogen_agentchat.agents import AssistantAgent, MessageFilterAgent
from autogen_agentchat.base import ChatAgent, Team
from autogen_core import AgentRuntime, BaseAgent
from autogen_core.code_executor import CodeExecutor
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import BaseTool, FunctionTool, Workbench

from blamespan_integrations.autogen import _own_tracing
from blamespan_integrations.autogen._agents import agent_start
from blamespan_integrations.autogen._frames import recorded_call, recorded_stream
from blamespan_integrations.autogen._mail import Letters
from blamespan_integrations.autogen._managers import overheard
from blamespan_integrations.autogen._models import model_start
from blamespan_integrations.autogen._patches import Patches
from blamespan_integrations.autogen._runtime import carried, delivered, franked
from blamespan_integrations.autogen._teams import team_start
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
    patches, letters = Patches(), Letters()
    try:
        _own_tracing.silence(patches, letters)
        _wrap_runtime(patches, recorder, letters)
        _wrap_classes(patches, recorder)
    except BaseException:
        patches.undo()
        raise
    return patches


def _wrap_classes(patches: Patches, recorder: Recorder) -> None:
    team, agent = team_start(recorder), agent_start(recorder)
    workbench, tool, model = workbench_start(recorder), tool_start(recorder), model_start(recorder)
    patches.cover(Team, {"run": recorded_call(patches, team), "run_stream": recorded_stream(patches, team)})
    patches.cover(
        ChatAgent,
        {"on_messages": recorded_call(patches, agent), "on_messages_stream": recorded_stream(patches, agent)},
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
    patches.replace(FunctionTool, "run", in_thread(patches)(vars(FunctionTool)["run"]))
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
    deliver = delivered(patches, recorder, letters)
    patches.replace(BaseAgent, "on_message", deliver(vars(BaseAgent)["on_message"]))
    patches.replace(BaseAgent, "publish_message", overheard(patches)(vars(BaseAgent)["publish_message"]))
    call_tool = vars(AssistantAgent).get("_execute_tool_call")  # private: the layers below do without it
    if isinstance(call_tool, staticmethod):
        # looked up, not `__func__`: that would go past another instrumentation's wrapper
        wrapped = recorded_call(patches, agent_tool_start(recorder))(call_tool.__get__(None, AssistantAgent))
        patches.replace(AssistantAgent, "_execute_tool_call", staticmethod(wrapped))
