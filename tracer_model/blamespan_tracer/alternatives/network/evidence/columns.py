"""Features that are worked out together: which columns come of one function, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blamespan_tracer.alternatives.network.representation.analysis import Analysis
from blamespan_tracer.alternatives.network.representation.claims import Floats


@dataclass(frozen=True, slots=True)
class Evidence:
    """Columns that one function works out.

    Attributes:
        work_out: Returns the columns: (N,) each, how strongly each merged step shows something.
        names: Of the features, in the order of the columns.
        shares: Those that are shares: models also see how far they are from the run's other steps.
    """

    work_out: Callable[[Analysis], Sequence[Any]]
    names: tuple[str, ...]
    shares: frozenset[str] = frozenset()

    def describe(self, run: Analysis) -> Iterator[tuple[str, Floats]]:
        """Yield every column by the name of its feature."""
        for name, column in zip(self.names, self.work_out(run), strict=True):
            yield name, np.array(column, np.float64)
