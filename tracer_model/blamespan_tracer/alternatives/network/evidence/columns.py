"""Features that are worked out together: which columns come of one function, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from blamespan_tracer.alternatives.network.representation.analysis import Analysis
from blamespan_tracer.alternatives.network.representation.claims import Floats

__all__ = ["Evidence"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Columns that one function works out.

    Attributes:
        work_out: Returns one column, or a record of several: (N,) each, how strongly each merged step shows something.
        columns: By the name of a feature the attribute of the record that has it; empty for what is no record.
        shares: Those that are shares: models also see how far they are from the run's other steps.
    """

    work_out: Callable[[Analysis], object]
    columns: Mapping[str, str]
    shares: frozenset[str] = frozenset()

    def describe(self, run: Analysis) -> Iterator[tuple[str, Floats]]:
        """Yield every column by the name of its feature."""
        record = self.work_out(run)
        for name, attribute in self.columns.items():
            yield name, np.array(attrgetter(attribute)(record) if attribute else record, np.float64)
