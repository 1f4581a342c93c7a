"""Exports of workflow platforms, written by hand after the shapes that their sources define; no real export is copied.

Dify: `workflow_run_fields.py`, `task_entities.py` and the results of its nodes. n8n: `interfaces.ts`,
`run-execution-data.v1.ts`, and `flatted`, the form in which its database keeps executions. Flowise: `Execution.ts`,
`Interface.Agentflow.ts` and what its nodes return.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

_START = {"order": "Order 7731", "topic": "refund"}
_PROMPTS = [
    {"role": "system", "text": "You answer customers of a shop.", "files": []},
    {"role": "user", "text": "Order 7731: paid 60 of 80", "files": []},
]


def dify_node(node: str, kind: str, after: str | None, index: int, **fields: Any) -> dict[str, Any]:
    """Write the execution of one node as the console lists it."""
    return {
        "id": f"exec-{index}",
        "index": index,
        "predecessor_node_id": after,
        "node_id": node,
        "node_type": kind,
        "title": fields.pop("title", node),
        "inputs": None,
        "process_data": None,
        "outputs": None,
        "status": "succeeded",
        "error": None,
        "elapsed_time": 0.5,
        "execution_metadata": None,
        "created_at": 1_790_000_000 + index,
        "finished_at": 1_790_000_001 + index,
    } | fields


def dify_executions() -> list[dict[str, Any]]:
    """Write the executions of a run that looks an order up, takes the branch of refunds, and answers."""
    return [
        dify_node("start", "start", None, 1, title="Start", inputs=dict(_START), outputs=dict(_START)),
        dify_node(
            "http", "http-request", "start", 2, title="Look up",
            process_data={"request": "GET /orders/7731"}, outputs={"status_code": 200, "body": "paid 60 of 80"},
        ),
        dify_node(
            "ask", "if-else", "http", 3, title="A refund?",
            inputs={"conditions": [
                {"actual_value": "refund", "expected_value": "refund", "comparison_operator": "is"}]},
            process_data={"condition_results": [{
                "group": {"case_id": "true", "logical_operator": "and", "conditions": [
                    {"variable_selector": ["start", "topic"], "comparison_operator": "is", "value": "refund"}]},
                "results": [True], "final_result": True}]},
            outputs={"result": True, "selected_case_id": "true"},
        ),
        dify_node(
            "llm", "llm", "ask", 4, title="Writer", inputs={"#http.body#": "paid 60 of 80"},
            process_data={"model_mode": "chat", "prompts": deepcopy(_PROMPTS),
                          "usage": {"prompt_tokens": 20, "completion_tokens": 5}},
            outputs={"text": "You get 60 back.", "usage": {"prompt_tokens": 20, "completion_tokens": 5},
                     "finish_reason": "stop"},
        ),
        dify_node("end", "end", "llm", 5, title="End", inputs={"reply": "You get 60 back."},
                  outputs={"reply": "You get 60 back."}),
    ]  # fmt: skip


def dify_detail(**fields: Any) -> dict[str, Any]:
    """Write the detail of that run."""
    return {
        "id": "2f0c8d4e-0000-4000-8000-000000000001",
        "version": "2026-01-01",
        "graph": {
            "nodes": [
                {"id": "http", "data": {"type": "http-request"}},
                {"id": "llm", "data": {"type": "llm"}},
                {
                    "id": "end",
                    "data": {"type": "end", "outputs": [{"variable": "reply", "value_selector": ["llm", "text"]}]},
                },
            ],
            "edges": [{"source": "llm", "target": "end", "sourceHandle": "source"}],
        },
        "inputs": _START,
        "status": "succeeded",
        "outputs": {"reply": "You get 60 back."},
        "error": None,
        "total_steps": 5,
        "created_at": 1_790_000_000,
        "finished_at": 1_790_000_010,
    } | fields


def dify_stream(run: str = "run-1") -> list[dict[str, Any]]:
    """Write the same run as the events that the service streams."""
    common = {"task_id": f"task-{run}", "workflow_run_id": run}
    events: list[dict[str, Any]] = [{**common, "event": "workflow_started", "data": {"id": run, "inputs": _START}}]
    for execution in dify_executions():
        begun = {key: None if key in ("inputs", "outputs") else value for key, value in execution.items()}
        events.append({**common, "event": "node_started", "data": begun})
        if execution["node_type"] == "llm":
            events.append({**common, "event": "text_chunk", "data": {"text": "You get 60"}})
        events.append({**common, "event": "node_finished", "data": execution})
    done = {"id": run, "status": "succeeded", "outputs": {"reply": "You get 60 back."}, "error": None}
    return [*events, {**common, "event": "workflow_finished", "data": done}]


def n8n_run(start_ms: int, *before: str, data: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """Write one execution of an n8n node."""
    return {
        "startTime": 1_790_000_000_000 + start_ms,
        "executionTime": 5,
        "executionIndex": start_ms,
        "executionStatus": "success",
        "source": [{"previousNode": name} for name in before],
        **({"data": data} if data is not None else {}),
    } | fields


def n8n_execution(**fields: Any) -> dict[str, Any]:
    """Write an execution that is asked in a chat, looks an order up by an agent with a tool, and branches."""
    chain = "@n8n/n8n-nodes-langchain"
    nodes = [
        {"name": "Chat", "type": f"{chain}.chatTrigger", "id": "n1", "parameters": {}},
        {"name": "Clerk", "type": f"{chain}.agent", "id": "n2", "parameters": {"text": "={{ $json.chatInput }}"}},
        {"name": "Model", "type": f"{chain}.lmChatOpenAi", "id": "n3", "parameters": {}},
        {"name": "orders", "type": f"{chain}.toolHttpRequest", "id": "n4", "parameters": {}},
        {
            "name": "Refund?",
            "type": "n8n-nodes-base.if",
            "typeVersion": 2,
            "id": "n5",
            "parameters": {
                "conditions": {
                    "combinator": "and",
                    "conditions": [
                        {
                            "leftValue": "={{ $json.output }}",
                            "rightValue": "60",
                            "operator": {"type": "string", "operation": "contains"},
                        }
                    ],
                }
            },
        },
        {
            "name": "Pay",
            "type": "n8n-nodes-base.httpRequest",
            "id": "n6",
            "parameters": {"url": "https://pay.example.com", "body": "={{ $json.output }}"},
        },
    ]
    connections = {
        "Chat": {"main": [[{"node": "Clerk", "type": "main", "index": 0}]]},
        "Model": {"ai_languageModel": [[{"node": "Clerk", "type": "ai_languageModel", "index": 0}]]},
        "orders": {"ai_tool": [[{"node": "Clerk", "type": "ai_tool", "index": 0}]]},
        "Clerk": {"main": [[{"node": "Refund?", "type": "main", "index": 0}]]},
        "Refund?": {"main": [[{"node": "Pay", "type": "main", "index": 0}], []]},
    }
    answer = [[{"json": {"output": "60 were paid."}, "pairedItem": {"item": 0}}]]
    run_data = {
        "Chat": [n8n_run(0, data={"main": [[{"json": {"chatInput": "Refund order 7731.", "sessionId": "s"}}]]})],
        "Model": [
            n8n_run(
                2,
                "Clerk",
                inputOverride={"ai_languageModel": [[{"json": {"messages": ["Human: Refund order 7731."]}}]]},
                data={
                    "ai_languageModel": [
                        [
                            {
                                "json": {
                                    "response": {"generations": [[{"text": "", "generationInfo": {}}]]},
                                    "tokenUsage": {"promptTokens": 20, "completionTokens": 5, "totalTokens": 25},
                                }
                            }
                        ]
                    ]
                },
            )
        ],
        "orders": [
            n8n_run(
                3,
                "Clerk",
                inputOverride={"ai_tool": [[{"json": {"id": 7731}}]]},
                data={"ai_tool": [[{"json": {"response": "paid 60 of 80"}}]]},
            )
        ],
        "Clerk": [n8n_run(1, "Chat", data={"main": answer})],
        "Refund?": [n8n_run(4, "Clerk", data={"main": [answer[0], []]})],
        "Pay": [n8n_run(5, "Refund?", data={"main": [[{"json": {"status": "paid"}}]]})],
    }
    return {
        "id": "231",
        "finished": True,
        "mode": "webhook",
        "status": "success",
        "startedAt": "2026-09-21T14:13:20.000Z",
        "stoppedAt": "2026-09-21T14:13:21.000Z",
        "workflowId": "w1",
        "workflowData": {"id": "w1", "name": "Refunds", "nodes": nodes, "connections": connections},
        "data": {
            "version": 1,
            "resultData": {"runData": run_data, "lastNodeExecuted": "Pay"},
            "executionData": {"nodeExecutionStack": [], "waitingExecution": {}},
        },
    } | fields


def flatted(value: Any) -> list[Any]:
    """Write a value as n8n's database keeps it: one list, in which texts within values are places in that list."""
    places: list[Any] = []
    known: dict[str, str] = {}

    def add(each: Any) -> str:
        if isinstance(each, str) and each in known:
            return known[each]
        place = str(len(places))
        if isinstance(each, str):
            known[each] = place
        places.append(None)
        places[int(place)] = held(each)
        return place

    def held(each: Any) -> Any:
        if isinstance(each, dict):
            return {key: add(item) if isinstance(item, str | dict | list) else item for key, item in each.items()}
        if isinstance(each, list):
            return [add(item) if isinstance(item, str | dict | list) else item for item in each]
        return each

    add(value)
    return places


def flowise_nodes() -> list[dict[str, Any]]:
    """Write what the nodes of an agentflow did: an agent with a tool, a branch, a call, an answer."""

    def node(name: str, label: str, before: list[str], **data: Any) -> dict[str, Any]:
        identity = {"id": f"{name}_0", "name": name}
        return {"nodeId": f"{name}_0", "nodeLabel": label, "data": identity | data, "previousNodeIds": before,
                "status": "FINISHED"}  # fmt: skip

    asked = "Refund order 7731."
    condition = {"type": "string", "value1": "60 were paid.", "operation": "contains", "value2": "60"}
    other = {"type": "string", "value1": "", "operation": "equal", "value2": ""}
    return [
        node("startAgentflow", "Start", [], input={"question": asked}, output={"question": asked}, state={}),
        node(
            "agentAgentflow", "Clerk", ["startAgentflow_0"],
            input={"messages": [
                {"role": "user", "content": asked},
                {"role": "assistant", "content": "", "tool_calls": [{"name": "orders"}]},
                {"role": "tool", "content": "paid 60 of 80"}]},
            output={"content": "60 were paid.", "usedTools": [
                {"tool": "orders", "toolInput": {"id": 7731}, "toolOutput": "paid 60 of 80"}],
                "timeMetadata": {"start": 1_790_000_000_000, "end": 1_790_000_001_000, "delta": 1_000},
                "usageMetadata": {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25}},
        ),
        node(
            "conditionAgentflow", "Refund?", ["agentAgentflow_0"], input={"conditions": [condition]},
            output={"conditions": [condition | {"isFulfilled": True}, other | {"isFulfilled": False}]},
        ),
        node(
            "httpAgentflow", "Pay", ["conditionAgentflow_0"], input={"http": {"method": "POST", "body": "60"}},
            output={"http": {"data": "paid", "status": 200}},
        ),
        node("directReplyAgentflow", "Reply", ["httpAgentflow_0"], input={},
             output={"content": "60 are on their way."}),
    ]  # fmt: skip
