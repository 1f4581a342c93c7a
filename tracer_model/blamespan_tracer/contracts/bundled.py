"""The contracts that come with blamespan."""

from __future__ import annotations

from blamespan.taxonomy import mode
from blamespan_tracer.contracts import bundled_runs, bundled_steps
from blamespan_tracer.contracts.contract import Contract

__all__ = ["CONTRACTS"]

CONTRACTS: tuple[Contract, ...] = (
    Contract("sum-holds", "A written sum holds.", bundled_steps.sums_hold, mode("mast:FM-2.6"), 0.9),
    Contract(
        "result-believed",
        "What a tool answered is not contradicted by who reads it.",
        bundled_steps.results_are_believed,
        mode("blamespan:X3"),
        0.6,
    ),
    Contract(
        "task-kept", "What the task states is not contradicted.", bundled_steps.task_is_kept, mode("mast:FM-1.1"), 0.5
    ),
    Contract(
        "own-words-stand",
        "An agent does not give a subject another value without saying so.",
        bundled_steps.own_words_stand,
        mode("mast:FM-2.6"),
        0.5,
    ),
    Contract(
        "step-new",
        "A message is not said twice.",
        bundled_steps.steps_are_new,
        mode("mast:FM-1.3"),
        0.5,
        is_symptom=True,
    ),
    Contract(
        "call-new",
        "An answered call is not made again.",
        bundled_steps.calls_are_new,
        mode("mast:FM-1.3"),
        0.4,
        is_symptom=True,
    ),
    Contract(
        "tool-error-met",
        "After its tool failed an agent tries again or says so.",
        bundled_steps.tool_errors_are_met,
        mode("blamespan:X3"),
        0.6,
    ),
    Contract(
        "arguments-well-formed",
        "A call names a tool that exists, with arguments that it takes.",
        bundled_steps.arguments_are_well_formed,
        mode("blamespan:X2"),
        0.5,
    ),
    Contract(
        "arguments-known",
        "Identifiers and long numbers in a call come from somewhere.",
        bundled_steps.arguments_are_known,
        mode("blamespan:X2"),
        0.3,
    ),
    Contract(
        "number-has-source",
        "A number stands in what is known, or follows from it.",
        bundled_steps.numbers_have_a_source,
        mode("blamespan:X1"),
        0.4,
    ),
    Contract(
        "speaks-for-itself",
        "An agent plays nobody else's part.",
        bundled_steps.speaks_for_itself,
        mode("mast:FM-1.2"),
        0.4,
    ),
    Contract(
        "hand-off-arrives",
        "Who is handed the work exists, and acts.",
        bundled_steps.hand_offs_arrive,
        mode("blamespan:X6"),
        0.6,
    ),
    Contract(
        "objection-heard",
        "Who is objected to does not say the same again.",
        bundled_steps.objections_are_heard,
        mode("mast:FM-2.5"),
        0.5,
        is_symptom=True,
    ),
    Contract(
        "task-restated-whole",
        "Who states the task to others leaves no number out.",
        bundled_runs.restates_all_of_the_task,
        mode("mast:FM-2.4"),
        0.4,
    ),
    Contract(
        "approval-sees-errors",
        "What one's own tool found failing is not approved.",
        bundled_runs.approvals_see_errors,
        mode("mast:FM-3.3"),
        0.7,
        is_symptom=True,
    ),
    Contract(
        "approval-sees-sums",
        "A sum that does not hold is not approved.",
        bundled_runs.approvals_see_wrong_sums,
        mode("mast:FM-3.3"),
        0.7,
        is_symptom=True,
    ),
    Contract("text-whole", "A message does not break off.", bundled_runs.text_is_whole, mode("blamespan:X5"), 0.4),
    Contract(
        "ends-when-done",
        "A run ends when it is done.",
        bundled_runs.ends_when_done,
        mode("mast:FM-1.5"),
        0.5,
        is_symptom=True,
    ),
    Contract(
        "done-when-ended",
        "A run does not end while it says itself that something is open.",
        bundled_runs.goes_on_while_open,
        mode("mast:FM-3.1"),
        0.5,
        is_symptom=True,
    ),
    Contract(
        "answer-given",
        "The last word is an answer.",
        bundled_runs.answer_is_given,
        mode("mast:FM-2.4"),
        0.4,
        is_symptom=True,
    ),
)
"""In the order in which they are reported."""
