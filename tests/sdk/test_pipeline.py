"""The core isolates one bad run in one way, whoever enters it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from blamespan import conventions as words
from blamespan.attribution import Attribution
from blamespan.errors import MalformedVerdict
from blamespan.importing.recorded import RecordedRun
from blamespan.pipeline import annotate_traces, attribute_parts
from blamespan.rebuilding.emit import emit
from blamespan.trace import MessageActionTrace
from tests.sdk.fixed_tracer import LongestStepTracer
from tests.sdk.malformed_verdicts import BAD_TASK, MALFORMED, MalformedTracer
from tests.sdk.talks import talk

GOOD, BAD = talk(1), talk(2, task=BAD_TASK)


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_verdict_costs_its_run_alone(name: str) -> None:
    """It is an error of that run, which says what is wrong; the others of its batch get their verdicts."""
    good, bad = attribute_parts([RecordedRun("a", GOOD), RecordedRun("b", BAD)], MalformedTracer(name))

    assert good == (LongestStepTracer().attribute([GOOD])[0],)
    assert isinstance(bad, MalformedVerdict)
    assert MALFORMED[name][1] in str(bad)


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_verdict_is_never_written(name: str) -> None:
    """The spans of its run come out as they were, but for the reason on the root."""
    good, bad = annotate_traces([emit(GOOD), emit(BAD)], MalformedTracer(name))

    assert words.BLAME_AGENT in good[0].attributes
    assert str(bad[0].attributes[words.ABSTAINED]).startswith("could not be attributed: ")
    assert bad[1:] == list(emit(BAD))[1:]


class HalfAnswer(LongestStepTracer):
    """Answers for half of a batch, and then raises."""

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        return self._yield_one(traces)  # type: ignore[return-value]  # a third party's mistake

    def _yield_one(self, traces: Sequence[MessageActionTrace]) -> Iterator[Attribution]:
        for trace in traces:
            if trace.task == BAD_TASK:
                raise KeyError(BAD_TASK)
            yield self._verdict(trace)


def test_answer_that_raises_while_it_is_read_is_isolated() -> None:
    """A tracer that yields its verdicts may raise late: each run is asked for alone then."""
    good, bad = attribute_parts([RecordedRun("a", GOOD), RecordedRun("b", BAD)], HalfAnswer())

    assert isinstance(good, tuple)
    assert isinstance(bad, KeyError)
