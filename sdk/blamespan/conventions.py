"""The words on the wire: every span name, attribute key and value blamespan reads or writes.

The primary dialect is OpenTelemetry's GenAI semantic conventions, v0.1.0 of `semantic-conventions-genai`; their keys
are re-exported here from `opentelemetry-semantic-conventions`, so that the rest of the code has one place to look. Keys
that the conventions lack start with `blamespan.`. What v0.1.0 took away (`WORKFLOW_NAME`, `HOSTED_AGENT_ID` on spans of
agents that run in the program, `finish_reason` within messages) is read, from other libraries and from recordings of
earlier versions, and no longer written.
"""

from typing import Final

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as _gen_ai
from opentelemetry.semconv.attributes import error_attributes as _error

OPERATION: Final = _gen_ai.GEN_AI_OPERATION_NAME
"""What a span does: one of the `OPERATION_*` values. Jaeger >= 2.20 draws its GenAI view from it."""
AGENT_NAME: Final = _gen_ai.GEN_AI_AGENT_NAME
"""Who acted; on a run's span the team or graph. On tool and model spans: the agent on whose behalf."""
AGENT_ID: Final = "blamespan.agent.id"
"""The framework's own identifier of the agent instance."""
HOSTED_AGENT_ID: Final = _gen_ai.GEN_AI_AGENT_ID
"""What `AGENT_ID` was written as before v0.1.0, which keeps it for agents that a provider hosts. Read only."""
AGENT_DESCRIPTION: Final = _gen_ai.GEN_AI_AGENT_DESCRIPTION
"""What the agent says of itself."""
CONVERSATION_ID: Final = _gen_ai.GEN_AI_CONVERSATION_ID
"""The team, thread or session this run belongs to; equal across runs that continue each other."""
WORKFLOW_NAME: Final = _gen_ai.GEN_AI_WORKFLOW_NAME
"""The team or graph, before v0.1.0 put that in `AGENT_NAME`. Read only."""
INPUT_MESSAGES: Final = _gen_ai.GEN_AI_INPUT_MESSAGES
"""JSON of the messages received; on agent spans only those new since the agent last spoke."""
SYSTEM_INSTRUCTIONS: Final = _gen_ai.GEN_AI_SYSTEM_INSTRUCTIONS
"""JSON of the parts of instructions that a model is given apart from its messages. Our integrations record instructions
as messages, because both frameworks send them so."""
OUTPUT_MESSAGES: Final = _gen_ai.GEN_AI_OUTPUT_MESSAGES
"""JSON of the messages produced."""
TOOL_NAME: Final = _gen_ai.GEN_AI_TOOL_NAME
TOOL_DESCRIPTION: Final = _gen_ai.GEN_AI_TOOL_DESCRIPTION
TOOL_CALL_ID: Final = _gen_ai.GEN_AI_TOOL_CALL_ID
TOOL_ARGUMENTS: Final = _gen_ai.GEN_AI_TOOL_CALL_ARGUMENTS
"""JSON of the arguments a tool was called with."""
TOOL_RESULT: Final = _gen_ai.GEN_AI_TOOL_CALL_RESULT
"""What the tool answered, as text or JSON."""
PROVIDER_NAME: Final = _gen_ai.GEN_AI_PROVIDER_NAME
REQUEST_MODEL: Final = _gen_ai.GEN_AI_REQUEST_MODEL
RESPONSE_MODEL: Final = _gen_ai.GEN_AI_RESPONSE_MODEL
FINISH_REASONS: Final = _gen_ai.GEN_AI_RESPONSE_FINISH_REASONS
INPUT_TOKENS: Final = _gen_ai.GEN_AI_USAGE_INPUT_TOKENS
OUTPUT_TOKENS: Final = _gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS
ERROR_TYPE: Final = _error.ERROR_TYPE
"""Class of the error the operation ended with, e.g. an exception's type name."""

_Operations = _gen_ai.GenAiOperationNameValues
OPERATION_WORKFLOW: Final = _Operations.INVOKE_WORKFLOW.value
OPERATION_AGENT: Final = _Operations.INVOKE_AGENT.value
OPERATION_TOOL: Final = _Operations.EXECUTE_TOOL.value
OPERATION_CHAT: Final = _Operations.CHAT.value
MODEL_OPERATIONS: Final = frozenset(
    {OPERATION_CHAT, _Operations.TEXT_COMPLETION.value, _Operations.GENERATE_CONTENT.value}
)
"""What the span of a model call does."""

# --- a run and its steps -----------------------------------------------------------------------------

RUN_COMPLETE: Final = "blamespan.run.complete"
"""bool, on the run's span: true when the run ended in order (also when it ended with an error)."""
RUN_AGENTS: Final = "blamespan.run.agents"
"""JSON `[{"name", "role", "id"?, "description"?}]`, on the run's span: who takes part, speaking or not."""
RUN_TASK: Final = "blamespan.run.task"
"""str, on the run's span: what was asked first, where the run goes on from another; its input is the answer alone."""
RUN_INTERRUPTED: Final = "blamespan.run.interrupted"
"""bool, true, on the run's span: it waits for somebody outside. The run that goes on from there links to this one."""
RUN_JUDGED_AFTER: Final = "blamespan.run.judged_after"
"""list of str, on the run's span: trace ids of the earlier parts of this run that its verdict was made with."""
LINK_RELATION: Final = "blamespan.link.relation"
"""str, on the run's link to an earlier run: `continues`, or `forks` where the program named a checkpoint."""
RUN_OUTCOME: Final = "blamespan.run.outcome"
"""`succeeded` or `failed`, on the run's span, where somebody knows; absent otherwise. Said after the run had ended, it
stands on a span of its own below the run's, which has no operation; what was said last counts."""
RUN_OUTCOME_REASON: Final = "blamespan.run.outcome_reason"
"""str, beside `RUN_OUTCOME`: why, in the words of who said so."""
RUN_OUTCOME_SPAN: Final = "run_outcome"
"""Name of the span on which an outcome stands that was said after the run had ended."""
STEP_INDEX: Final = "blamespan.step.index"
"""int, 0-based place of the step in its run, in causal order."""
STEP_RESULT_INDEX: Final = "blamespan.step.result_index"
"""int, on a tool span: the place of the tool's answer, where `STEP_INDEX` is the place of the call."""
STEP_KIND: Final = "blamespan.step.kind"
"""One of `blamespan.trace.StepKind`."""
STEP_CONTENT: Final = "blamespan.step.content"
"""str: the step's text, only where it cannot be read off the standard attributes; empty where contents are off."""
STEP_INPUT: Final = "blamespan.step.input"
"""str: what the step was given that none before it says, only where it cannot be read off the standard attributes."""
STEP_INSTRUCTIONS: Final = "blamespan.step.instructions"
"""int[], on a step of a rebuilt run: which characters of what it was given are instructions, messages of the role
`system`: first and end of each stretch, one after the other."""
STEP_RESULT_CONTENT: Final = "blamespan.step.result_content"
"""str, on a tool span: the answer's text, only where it cannot be read off the standard attributes."""
MESSAGE_ID: Final = "blamespan.message.id"
"""The framework's identifier of the message produced."""
MESSAGE_SENDER: Final = "blamespan.message.sender"
"""Who sent the message produced: the agent itself."""
MESSAGE_RECIPIENTS: Final = "blamespan.message.recipients"
"""str[]: who receives the message produced. Empty or absent: not known."""
NODE_ID: Final = "blamespan.node.id"
"""The workflow platform's identifier of the node that a step is an execution of."""
NODE_TYPE: Final = "blamespan.node.type"
"""What the workflow platform calls nodes of its kind: `llm`, `if-else`, `n8n-nodes-base.httpRequest`."""
NODE_INPUTS: Final = "blamespan.node.inputs"
"""JSON object, on a message, decision or call of a node: what each of its input variables held; long values are cut."""
NODE_SOURCES: Final = "blamespan.node.sources"
"""JSON `{variable: {"step", "key"}}`, beside `NODE_INPUTS`: the step whose output each variable reads, null for a node
that gave nothing in this run, and the way to the value in its outputs, keys joined by dots."""
NODE_OUTPUTS: Final = "blamespan.node.outputs"
"""JSON object, on a message or result of a node: what each of its output variables held; long values are cut."""
NODE_CASES: Final = "blamespan.node.cases"
"""JSON `{"cases": [{"name", "logic", "conditions": [{"actual", "operator", "expected"}]}], "taken"}`, on a branch's
decision: the cases it tried, in their order, and the name of the one it took; `else` where it took none."""
ATIF_STEP: Final = "blamespan.atif.step"
"""JSON, on the steps of a run that was read from ATIF: the numbers of its trajectory and step there, and what that
step, `call` or `result` says that no other attribute does, so that it can be written again."""
ATIF_TRAJECTORY: Final = "blamespan.atif.trajectory"
"""JSON, on the first step of each trajectory of such a run: all but its steps; `parent` is the number of the trajectory
that called it, `before` its steps before its agent's first."""
COST_USD: Final = "blamespan.usage.cost_usd"
"""float, on a step: US dollars that its model calls cost, where the source says so."""
LINK_STEP: Final = "blamespan.link.step"
"""int, on a span link: index of the step that the link's own step builds on."""
TRUNCATED: Final = "blamespan.truncated"
"""str[]: keys on this span whose value was cut at the content limit."""
ORIGINAL_BYTES: Final = "blamespan.original_bytes"
"""int[]: the uncut UTF-8 lengths, in the order of `TRUNCATED`; at least that much where nobody counted on."""
WITHHELD: Final = "blamespan.withheld"
"""str[]: keys of contents that are not recorded because content capture is off."""
WITHHELD_BYTES: Final = "blamespan.withheld_bytes"
"""int[]: their UTF-8 lengths, in the order of `WITHHELD`. Within messages each part says its own `size_bytes`."""
LOST: Final = "blamespan.lost"
"""str[]: what else of this span could not be recorded, and why; names and types only, never contents."""

# --- after attribution -------------------------------------------------------------------------------

BLAME_SCORE: Final = "blamespan.blame.score"
"""float 0..1, on every step span: the step's share of the blame."""
BLAME_EVIDENCE_SCORE: Final = "blamespan.blame.evidence_score"
"""float 0..1, on the suspects' spans: the part of that share that evidence in the run gives; the rest is a prior, where
mistakes usually are. Not there where the tracer does not say."""
BLAME_RANK: Final = "blamespan.blame.rank"
"""int, 1-based, on the suspects' spans: place in the order of suspicion. 1 is the decisive step, or the first suspect
where none is called so: the highest step of the agent with the most blame. The others follow by their shares."""
BLAME_DECISIVE: Final = "blamespan.blame.decisive"
"""bool, on the suspects' spans: true on that of the decisive step; on none where less than half of the first
suspect's share is evidence."""
ERROR_MODE: Final = "blamespan.error.mode"
"""Code of the error mode within its taxonomy, e.g. `FM-1.1`."""
ERROR_NAME: Final = "blamespan.error.name"
ERROR_TAXONOMY: Final = "blamespan.error.taxonomy"
"""`mast`, `aegis` or `blamespan`: the same code means different things in different taxonomies."""
ERROR_SCORE: Final = "blamespan.error.score"
"""float 0..1: the tracer's confidence in the mode."""
EVIDENCE: Final = "blamespan.evidence"
"""str: the words in the step that speak for the blame."""
FINDING: Final = "blamespan.finding"
"""str, beside `EVIDENCE`: what kind of finding it is: `check NAME` of a check that the step breaks, `claim KIND` of a
claim that contradicts its source."""
LIKENESS: Final = "blamespan.likeness"
"""str, on the run's span: what a failed run has in common with those that fail alike: `schema NAME` of a known failure,
else agent, place of the step, error mode and kind of finding. Runs of one service with the same are an incident."""
CONTRADICTION_QUOTE: Final = "blamespan.contradiction.quote"
"""str: the words elsewhere in the run that the evidence contradicts."""
CONTRADICTION_SPAN_ID: Final = "blamespan.contradiction.span_id"
"""16 hex digits: the span of the step that says those words; not there where the run's task says them."""
CLAIM_SOURCES: Final = "blamespan.claim.sources"
"""str, JSON `[{"claim", "from", "agent"?, "span_id"?, "calculation"?, "span_ids"?}]`, on the spans of steps that state
a claim of the run's final answer: where the step has it from. `from` is `task`, `input`, `tool`, `user`, `agent`,
`calculation` or `nothing`; `span_id` (16 hex digits) is the span to go on at. Unsupported claims come first."""
CLAIM_LEFT_OUT: Final = "blamespan.claim.left_out"
"""int, beside `CLAIM_SOURCES`: how many claims of the step did not fit."""
CLAIM_COUNT: Final = "blamespan.claim.count"
"""int, on the run's span: how many values its final answer states."""
CLAIM_UNSUPPORTED: Final = "blamespan.claim.unsupported"
"""int, on the run's span: how many of them go back to an agent without a source."""
CLAIM_SUSPECT_SPAN_ID: Final = "blamespan.claim.suspect_span_id"
"""16 hex digits, on the run's span: the earliest span that states one of these without a source."""
SCHEMA_NAME: Final = "blamespan.schema.name"
"""str, on the span of a step that fails as a known failure did, and on the run's: the name of its error schema."""
SCHEMA_SCORE: Final = "blamespan.schema.score"
"""float 0..1, beside `SCHEMA_NAME`: how much of the schema's signature the step shows."""
SCHEMA_SPAN_ID: Final = "blamespan.schema.span_id"
"""16 hex digits, on the run's span: the span of the step that matches."""
SCHEMA_SEEN: Final = "blamespan.schema.seen"
"""int, on the run's span: in how many confirmed failures the schema was seen before."""
SCHEMA_SEEN_TRACE_ID: Final = "blamespan.schema.seen_trace_id"
"""32 hex digits, on the run's span: the trace of the first of these."""
CAUSE_KIND: Final = "blamespan.cause.kind"
"""`task` or `tool`, on the run's span: what the run failed by where no agent is to blame: what it was asked, or a tool
or the back end behind it. Then no span has a rank, and no agent stands under `BLAME_AGENT`."""
CAUSE_NAME: Final = "blamespan.cause.name"
"""str, beside it: the tool's name; `the task`."""
CAUSE_REASON: Final = "blamespan.cause.reason"
"""str, beside it: in a few words, what is wrong."""
CAUSE_QUOTE: Final = "blamespan.cause.quote"
"""str, beside it: the words that show it."""
CAUSE_SPAN_ID: Final = "blamespan.cause.span_id"
"""16 hex digits, beside it: the span of the step that says them; not there where the run's task says them."""
CAUSE_AGAINST: Final = "blamespan.cause.against"
"""str, beside it: other words of the run's task that do not go with them."""
VERDICT: Final = "blamespan.verdict"
"""`failed`, `looks failed`, `no sign of failure` or `abstained`, on the run's span: what the verdict comes to. A
recorded outcome counts before the tracer's score: a success is `no sign of failure`. Only runs of the first two words
have ranks, a decisive step, error modes and evidence on their spans."""
FAILURE_SCORE: Final = "blamespan.failure.score"
"""float 0..1, on the run's span: how likely the run failed by an agent's fault."""
FAILURE_UNAIDED_SCORE: Final = "blamespan.failure.unaided_score"
"""float 0..1, on the run's span: the same without being told how the run ended (`blamespan.run.outcome`), so that it
can be held against ends that are known. Not there where the tracer does not say."""
BLAME_AGENT: Final = "blamespan.blame.agent"
BLAME_STEP: Final = "blamespan.blame.step"
BLAME_SPAN_ID: Final = "blamespan.blame.span_id"
"""16 hex digits, on the run's span: the span of the step of rank 1, as `BLAME_AGENT` is its agent."""
BLAME_SPAN_NAME: Final = "blamespan.blame.span_name"
"""Name of the decisive step's span, on a span that stands for a later verdict: a backend may keep the two apart."""
VERDICT_SCOPE: Final = "blamespan.verdict"
"""Instrumentation scope of the spans that stand for later verdicts."""
TRACER_NAME: Final = "blamespan.tracer.name"
TRACER_VERSION: Final = "blamespan.tracer.version"
TRACER_WEIGHTS: Final = "blamespan.tracer.weights"
"""First 12 hex digits of the SHA-256 of the tracer's weights."""
REVISION: Final = "blamespan.revision"
"""int, 0 for the first attribution of a run, +1 each time late spans changed it."""
ABSTAINED: Final = "blamespan.abstained"
"""str: why the tracer gave no verdict. Absent when it gave one."""
OPINION_TRACERS: Final = "blamespan.opinion.tracers"
"""str[], on the run's span where the verdict combines several opinions: whose they are."""
OPINION_STEPS: Final = "blamespan.opinion.steps"
"""int[], beside it: the step that each blames most, -1 where it names none."""
OPINION_SCORES: Final = "blamespan.opinion.scores"
"""double[], beside it: that step's share of the blame, or how sure each is of it."""
OPINION_NOTES: Final = "blamespan.opinion.notes"
"""str[], beside it: why each names none; empty where it names one."""
VERIFIED: Final = "blamespan.verified"
"""`confirmed`, `refuted` or `undecided`, on the span of a suspect: whether the run ended otherwise with its step
put right. On a span that stands for a later verdict, that of the decisive step."""
VERIFICATION_REPEATS: Final = "blamespan.verification.repeats"
"""int, beside `VERIFIED`: how often the run was gone on with, the step put right."""
VERIFICATION_SUCCEEDED: Final = "blamespan.verification.succeeded"
"""int, beside it: how many of them succeeded."""
VERIFICATION_UNCHANGED_REPEATS: Final = "blamespan.verification.unchanged_repeats"
"""int, beside it: how often the run was gone on with from the step as it was, which shows what chance does."""
VERIFICATION_UNCHANGED_SUCCEEDED: Final = "blamespan.verification.unchanged_succeeded"
"""int, beside it: how many of those succeeded."""

PARTIAL: Final = "blamespan.partial"
"""bool, true where the verdict stands on a run whose end had not come when waiting for it ended."""

RECEIVED: Final = "blamespan.received."
"""Prefix under which the collector keeps what senders say in the words of a verdict: `blamespan.received.blame.score`
was sent as `blamespan.blame.score`. Without the prefix stands only what this collector says itself."""

# --- what the guard did ------------------------------------------------------------------------------

GUARD_EVENT: Final = "blamespan.guard"
"""Name of the span event that stands for a decision of the guard: on the step's span, one for each decision."""
GUARD_ACTION: Final = "blamespan.guard.action"
"""`observe`, `warn`, `rewrite`, `ask` or `block`: what the guard did. On a span the strictest of its decisions."""
GUARD_RULE: Final = "blamespan.guard.rule"
"""str: name of the policy's rule that the decision follows."""
GUARD_KIND: Final = "blamespan.guard.kind"
"""What the rule is about: `tool`, `argument`, `recipient`, `text`, `budget`, `check`, `suspicion`, `spread`, `schema`,
`own` for a rule in Python, `failure` where the guard itself failed."""
GUARD_REASON: Final = "blamespan.guard.reason"
"""str: what is wrong with the step, in the words of the policy; it quotes nothing of the step."""

MAX_ATTRIBUTION_BYTES: Final = 2_047
"""Longest value blamespan writes after attribution: Tempo cuts attribute values at 2,048 bytes."""
DEFAULT_MAX_CONTENT_BYTES: Final = 32_768
"""Default of `BLAMESPAN_MAX_CONTENT_BYTES`: longer contents are cut on a character boundary and marked."""
