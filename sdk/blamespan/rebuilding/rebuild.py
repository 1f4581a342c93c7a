"""From spans to the message-action trace: pure, and the inverse of `blamespan.emit`.

Spans of blamespan's own integrations say everything themselves. Spans of another instrumentation are read
in its dialect (`blamespan.dialects`). What no dialect knows is read as far as it goes: agent spans become
messages, tool spans become a call and its result, and the order is taken from the clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

from blamespan import conventions as words
from blamespan.errors import NoAgentSteps
from blamespan.genai_messages import text_of, texts_of
from blamespan.json_text import parse_json, text_or_json
from blamespan.rebuilding.runs import Run, is_told_step, split_runs
from blamespan.rebuilding.step_inputs import InputText, input_texts
from blamespan.spans import Span
from blamespan.trace import Agent, AgentRole, MessageActionTrace, Outcome, Step, StepKind, Usage

OWNED_KEYS = frozenset(
    {
        words.OPERATION,
        words.AGENT_NAME,
        words.OUTPUT_MESSAGES,
        words.TOOL_ARGUMENTS,
        words.TOOL_RESULT,
        words.ERROR_TYPE,
        words.INPUT_TOKENS,
        words.OUTPUT_TOKENS,
        words.STEP_INDEX,
        words.STEP_RESULT_INDEX,
        words.STEP_KIND,
        words.STEP_CONTENT,
        words.STEP_INPUT,
        words.STEP_RESULT_CONTENT,
        words.MESSAGE_SENDER,
        words.MESSAGE_RECIPIENTS,
    }
)
"""Attributes that a field of `Step` stands for; all others are kept in `Step.attributes`."""

_MODEL_KEYS = frozenset({words.REQUEST_MODEL, words.RESPONSE_MODEL})

UNKNOWN_AGENT = "unknown"
"""The agent of a step whose span names none."""


def rebuild(spans: Iterable[Span]) -> MessageActionTrace:
    """Rebuild the one run that *spans* hold.

    Args:
        spans: All spans of one trace, in any order. Spans of other instrumentations may be among them.

    Raises:
        NoAgentSteps: if there is no run in them.
        MalformedSpan: if they are of several traces.
        ValueError: if they hold several runs; use `split_runs` and `rebuild_run`.
    """
    runs = split_runs(spans)
    if not runs:
        raise NoAgentSteps(
            "expected a run (an invoke_workflow, invoke_agent or execute_tool span), got none. "
            "Is the program instrumented?"
        )
    if len(runs) > 1:
        raise ValueError(f"expected one run, got {len(runs)} in one trace. Use split_runs() and rebuild_run()")
    return rebuild_run(runs[0])


def rebuild_run(run: Run) -> MessageActionTrace:
    """Rebuild one run as `blamespan.rebuilding.runs.split_runs` gave it."""
    spans = run.spans if run.meanings is None else run.meanings
    root_id = run.root.span_id if run.root else None
    root = next((span for span in spans if span.span_id == root_id), None)
    drafts = _order_drafts([draft for span in spans if is_told_step(span) for draft in _drafts(span)])
    own_clock = all(draft.place is not None for draft in drafts)
    predecessors = _StepsOfSpans(drafts, spans)
    calls = _model_calls(spans)
    usage = {} if own_clock else {span_id: total for span_id, (total, _) in calls.items() if total is not None}
    models = {span_id: names[0] for span_id, (_, names) in calls.items() if len(names) == 1}
    steps = tuple(
        _step(draft, index, predecessors.inputs(draft, index, own_clock), usage, models)
        for index, draft in enumerate(drafts)
    )
    task = _task(run, root)
    texts = input_texts(spans, _of_own_span(drafts, steps), [task, *_task_parts(root)] if task else [])
    if texts:
        steps = tuple([_with_input(step, texts[step.index]) if step.index in texts else step for step in steps])
    return MessageActionTrace(
        trace_id=spans[0].trace_id,
        task=task,
        steps=steps,
        agents=_agents(root, steps, drafts),
        outcome=outcome_of(root, spans),
        resource=(root or spans[0]).resource,
    )


def step_content(span: Span, kind: StepKind) -> str:
    """Read the text of a step of *kind* off its span."""
    explicit = span.text(words.STEP_RESULT_CONTENT if _is_pair_result(span, kind) else words.STEP_CONTENT)
    if explicit is not None:
        return explicit
    if kind == "tool_call":
        arguments = span.attributes.get(words.TOOL_ARGUMENTS)
        return f"{span.text(words.TOOL_NAME) or span.name}({_plain(arguments)})"
    if kind == "tool_result":
        return _plain(span.attributes.get(words.TOOL_RESULT))
    return text_of(span.attributes.get(words.OUTPUT_MESSAGES))


def outcome_of(root: Span | None, spans: Iterable[Span]) -> Outcome:
    """Read how a run ended: as was said last, on the run's span or after its end; else by the run's status.

    Args:
        root: The run's span, if it came.
        spans: Those of the run, with or without *root*.
    """
    later = [span for span in spans if words.RUN_OUTCOME in span.attributes and words.OPERATION not in span.attributes]
    for span in [*sorted(later, key=lambda one: one.start_ns, reverse=True), *([root] if root else [])]:
        outcome = span.text(words.RUN_OUTCOME)
        if outcome in ("succeeded", "failed"):
            return cast(Outcome, outcome)
    return "failed" if root and root.status == "error" else "unknown"


_KINDS = frozenset(get_args(StepKind))


@dataclass(frozen=True, slots=True)
class _Draft:
    """A step before it has its place among the others."""

    span: Span
    kind: StepKind
    place: int | None
    """Where its span says it stands, if it says so."""
    time_ns: int


def _drafts(span: Span) -> list[_Draft]:
    named_kind = span.text(words.STEP_KIND)
    is_tool = span.text(words.OPERATION) == words.OPERATION_TOOL
    kind = cast(StepKind, named_kind) if named_kind in _KINDS else "tool_call" if is_tool else "message"
    number = span.integer(words.STEP_INDEX)
    if kind != "tool_call":
        return [_Draft(span, kind, number, span.end_ns)]
    call = _Draft(span, kind, number, span.start_ns)
    answered = span.integer(words.STEP_RESULT_INDEX)
    if answered is None and (number is not None or words.TOOL_RESULT not in span.attributes):
        return [call]
    return [call, _Draft(span, "tool_result", answered, max(span.start_ns, span.end_ns))]  # clocks may run backwards


def _is_pair_result(span: Span, kind: StepKind) -> bool:
    return kind == "tool_result" and span.text(words.STEP_KIND) != "tool_result"


def _order_drafts(drafts: list[_Draft]) -> list[_Draft]:
    numbers = [draft.place for draft in drafts]
    if None not in numbers and len(set(numbers)) == len(numbers):
        return sorted(drafts, key=lambda draft: cast(int, draft.place))
    return sorted(drafts, key=lambda draft: draft.time_ns)  # stable: a call stays before its result


class _StepsOfSpans:
    """Finds the steps that a step builds on."""

    def __init__(self, drafts: Sequence[_Draft], spans: Iterable[Span]) -> None:
        self._drafts = drafts
        self._of_span: dict[str, list[int]] = defaultdict(list)
        self._results_below: dict[str, list[int]] = defaultdict(list)
        parents = {span.span_id: span.parent_id for span in spans}
        for index, draft in enumerate(drafts):
            self._of_span[draft.span.span_id].append(index)
            parent = parents[draft.span.span_id]
            if draft.kind == "tool_result" and parent:
                self._results_below[parent].append(index)

    def inputs(self, draft: _Draft, index: int, own_clock: bool) -> tuple[int, ...]:
        """List the earlier steps *draft* builds on: what it links to, and what its own tools answered."""
        if _is_pair_result(draft.span, draft.kind):
            return (self._of_span[draft.span.span_id][0],)
        indices: set[int] = set()
        for link in draft.span.links:
            indices.update(self._find_linked(link.span_id, link.attributes))
        if not own_clock and draft.kind != "tool_call":
            indices.update(self._results_below[draft.span.span_id])
        return tuple(sorted([input_index for input_index in indices if input_index < index]))

    def _find_linked(self, span_id: str, attributes: Mapping[str, Any]) -> list[int]:
        indices = self._of_span.get(span_id, [])
        named = attributes.get(words.LINK_STEP)
        exact = [index for index in indices if self._drafts[index].place == named] if named is not None else None
        return exact or indices[-1:]  # a link to a tool's span means its answer


def _step(
    draft: _Draft,
    index: int,
    inputs: tuple[int, ...],
    model_usage: Mapping[str, Usage],
    models: Mapping[str, str],
) -> Step:
    span = draft.span
    is_result = _is_pair_result(span, draft.kind)
    attributes = {} if is_result else {k: v for k, v in span.attributes.items() if k not in OWNED_KEYS}
    if span.span_id in models and not is_result and not _MODEL_KEYS & attributes.keys():
        attributes[words.REQUEST_MODEL] = models[span.span_id]
    return Step(
        index=index,
        span_id=span.span_id,
        agent=span.text(words.AGENT_NAME) or UNKNOWN_AGENT,
        kind=draft.kind,
        content=step_content(span, draft.kind),
        recipients=() if is_result else _recipients(span),
        inputs=inputs,
        status=span.status,
        error=span.text(words.ERROR_TYPE),
        start_ns=span.start_ns,
        end_ns=max(span.start_ns, span.end_ns),
        usage=None if is_result else _usage(span) or model_usage.get(span.span_id),
        attributes=attributes,
    )


def _with_input(step: Step, given: InputText) -> Step:
    marked = {words.STEP_INSTRUCTIONS: given.instructions} if given.instructions else {}
    return replace(step, input_text=given.text, attributes={**step.attributes, **marked})


def _recipients(span: Span) -> tuple[str, ...]:
    recipients = span.attributes.get(words.MESSAGE_RECIPIENTS)
    if recipients is None or not isinstance(recipients, Sequence) or isinstance(recipients, str | bytes):
        return ()
    return tuple([str(name) for name in cast(Sequence[object], recipients)])


def _usage(span: Span) -> Usage | None:
    read, written = span.integer(words.INPUT_TOKENS), span.integer(words.OUTPUT_TOKENS)
    return None if read is None and written is None else Usage(read or 0, written or 0)


def _model_calls(spans: Sequence[Span]) -> dict[str, tuple[Usage | None, list[str]]]:
    """Add up the tokens of model calls per step span they lie below, and list their models, each once."""
    by_id = {span.span_id: span for span in spans}
    total: dict[str, tuple[Usage | None, list[str]]] = {}
    for span in spans:
        if is_told_step(span):
            continue
        usage, model = _usage(span), span.text(words.RESPONSE_MODEL) or span.text(words.REQUEST_MODEL)
        if usage is None and model is None:
            continue
        at = by_id.get(span.parent_id or "")
        for _ in range(len(by_id)):  # bounded: a hostile trace may hold a cycle
            if at is None or is_told_step(at):
                break
            at = by_id.get(at.parent_id or "")
        if at is not None and is_told_step(at):
            had, models = total.get(at.span_id, (None, []))
            if usage is not None:
                had = had or Usage()
                had = Usage(had.input_tokens + usage.input_tokens, had.output_tokens + usage.output_tokens)
            total[at.span_id] = had, models if model is None or model in models else [*models, model]
    return total


def _task(run: Run, root: Span | None) -> str:
    """Read what the run was asked to do; a step of our own that stands as root says so of itself, not of a run."""
    if root is None or (is_told_step(root) and run.meanings is None):
        return ""
    return root.text(words.RUN_TASK) or text_of(root.attributes.get(words.INPUT_MESSAGES))


def _task_parts(root: Span | None) -> list[str]:
    value = root.attributes.get(words.INPUT_MESSAGES) if root is not None else None
    return [] if value is None else [text for message in texts_of(value) for text in message]


def _of_own_span(drafts: Sequence[_Draft], steps: Sequence[Step]) -> list[tuple[Span, int, str, str]]:
    """List the steps but for the answers that stand on the spans of their calls, as `input_texts` takes them."""
    return [
        (draft.span, step.index, step.agent, step.content)
        for draft, step in zip(drafts, steps, strict=True)
        if not _is_pair_result(draft.span, draft.kind)
    ]


def _agents(root: Span | None, steps: Sequence[Step], drafts: Sequence[_Draft]) -> tuple[Agent, ...]:
    by_name = {agent.name: agent for agent in _read_announced_agents(root)}
    for step, draft in zip(steps, drafts, strict=True):
        if step.agent not in by_name:
            id_ = draft.span.text(words.AGENT_ID) or draft.span.text(words.HOSTED_AGENT_ID)
            description = draft.span.text(words.AGENT_DESCRIPTION)
            by_name[step.agent] = Agent(step.agent, "agent", id_, description)
    return tuple(by_name.values())


def _read_announced_agents(root: Span | None) -> list[Agent]:
    """Read the participants that the run's span lists; what is not well-formed there is left out."""
    try:
        listed = parse_json(root.text(words.RUN_AGENTS) or "[]") if root else []
    except ValueError:
        return []
    agents: list[Agent] = []
    for item in listed if isinstance(listed, list) else []:
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            role = item.get("role") if item.get("role") in get_args(AgentRole) else "agent"
            agents.append(Agent(item["name"], cast(AgentRole, role), item.get("id"), item.get("description")))
    return agents


def _plain(value: object) -> str:
    return "" if value is None else text_or_json(value)
