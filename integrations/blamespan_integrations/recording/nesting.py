"""What is at work, one inside the other: steps are told outwards, to whoever speaks around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, TypeVar, cast

from opentelemetry.context import Context

from blamespan.host_safety import shield_host
from blamespan_integrations.recording.objects import reference
from blamespan_integrations.recording.spans import StepRef

FrameT = TypeVar("FrameT", bound="NestedFrame[Any]")
KindT = TypeVar("KindT", bound="NestedFrame[Any]")


class NestedFrame(Generic[FrameT]):
    """Something at work, in a framework whose frames are all `FrameT`; it travels in the OpenTelemetry context.

    Attributes:
        framework: As it is called in the log.
        key: Under which a context has the innermost frame.
        outer: The frame around it; None of the outermost.
        is_open: False once it has ended.
        context: The OpenTelemetry context inside it; None before it has begun.
    """

    framework: ClassVar[str]
    key: ClassVar[str]
    outer: FrameT | None
    context: Context | None = None

    def __init__(self, owner: object) -> None:
        self.owner = owner
        self.is_open = True

    @property
    def owner(self) -> Any:  # whatever the framework calls a method of
        """Return the team, agent, tool, ... whose method was called; None once it is gone.

        Contexts hold frames for longer than a run: a frame must not keep what the program drops.
        """
        return self._owner()

    @owner.setter
    def owner(self, owner: object) -> None:
        self._owner = reference(owner)

    def enter(self, context: Context) -> None:
        """Take *context*, this frame in it, as the one inside."""
        self.context = Context({**context, self.key: self})

    def see(self, item: Any) -> None:  # whatever the framework returns or yields
        """Learn what the call returned, or the next thing that its stream yields."""

    def close(self, error: BaseException | None) -> None:
        """Learn that the call or stream is over; `GeneratorExit` means that the stream was left early."""
        self.is_open = False

    def abandon(self) -> None:
        """End what has been begun: nobody reads it any more, or something of ours has failed."""
        self.is_open = False

    def learn(self, what: str, method: Callable[[Any], None], news: Any) -> None:
        """Tell one of its own methods; where that fails, the frame is abandoned and the program goes on.

        Args:
            what: What it does, for the log.
            method: `see`, `close` or another.
            news: What it is told.
        """
        with shield_host(f"{self.framework}: {what}"):
            method(news)
            return
        with shield_host(f"{self.framework}: leave a span"):
            self.abandon()

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
