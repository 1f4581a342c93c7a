"""What stands out about the steps of a run: features of the network that several functions work out, by topic."""

from blamespan_tracer.alternatives.network.evidence.arithmetic import ALL_SUMS_HOLD, CORRECTIONS, MOST_SUMS_HOLD
from blamespan_tracer.alternatives.network.evidence.asking import CALLS_AND_QUESTIONS
from blamespan_tracer.alternatives.network.evidence.code import AGENTS_KEEP_CODE_OF_OTHERS, CODE_FAULTS
from blamespan_tracer.alternatives.network.evidence.columns import Evidence
from blamespan_tracer.alternatives.network.evidence.contradictions import CONTRADICTIONS
from blamespan_tracer.alternatives.network.evidence.endings import STEPS_END_IN_SENTENCES, STEPS_KEEP_THEIR_ANSWER
from blamespan_tracer.alternatives.network.evidence.lacking import LACKING
from blamespan_tracer.alternatives.network.evidence.numbers import (
    DIGITS_DO_NOT_SLIP,
    FIGURES,
    NUMBERS_KEEP_THEIR_NAMES,
    VALUES_KEEP_THEIR_THINGS,
)
from blamespan_tracer.alternatives.network.evidence.task import PICKS, RESTATEMENTS
from blamespan_tracer.alternatives.network.evidence.tool_calls import ARGUMENTS_HAVE_MENTIONS, CALLS_AND_RESULTS

__all__ = ["EVIDENCE", "Evidence"]

EVIDENCE = (
    *(ALL_SUMS_HOLD, MOST_SUMS_HOLD, CORRECTIONS, CONTRADICTIONS, ARGUMENTS_HAVE_MENTIONS, CALLS_AND_RESULTS, FIGURES),
    *(DIGITS_DO_NOT_SLIP, NUMBERS_KEEP_THEIR_NAMES, VALUES_KEEP_THEIR_THINGS, STEPS_END_IN_SENTENCES),
    *(STEPS_KEEP_THEIR_ANSWER, CALLS_AND_QUESTIONS, AGENTS_KEEP_CODE_OF_OTHERS, CODE_FAULTS, LACKING, RESTATEMENTS),
    PICKS,
)
