"""What is at work, one inside the other: steps are told outwards, to whoever speaks around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar, cast

from blamespan_integrations.recording.spans import StepRef

FrameT = TypeVar("FrameT", bound="NestedFrame[Any]")
KindT = TypeVar("KindT", bound="NestedFrame[Any]")


class NestedFrame(Generic[FrameT]):
    """Something at work, in a framework whose frames are all `FrameT`.

    Attributes:
        outer: The frame around it; None of the outermost.
    """

    outer: FrameT | None

    def predecessors(self) -> list[StepRef]:
        """List the steps that whoever speaks within builds on, having received nothing that says so itself."""
        return self.outer.predecessors() if self.outer is not None else []

    def note_step(self, step: StepRef) -> None:
        """Learn of something said within: whoever speaks around it builds on it."""
        if self.outer is not None:
            self.outer.note_step(step)

    def outwards(self) -> Iterator[FrameT]:
        """List this frame and those around it, innermost first."""
        frame = cast("FrameT | None", self)
        while frame is not None:
            yield frame
            frame = frame.outer

    def enclosing(self, kind: type[KindT]) -> KindT | None:
        """Find the innermost frame of *kind* around here."""
        frame: NestedFrame[Any] | None = self
        while frame is not None and not isinstance(frame, kind):
            frame = frame.outer
        return frame
