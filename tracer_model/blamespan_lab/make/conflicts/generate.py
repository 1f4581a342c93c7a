"""Play a recipe's scenes, record them, and say which step of each obeyed whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.errors import BlamespanError
from blamespan.otlp import request_to_json, spans_to_proto
from blamespan.otlp.sdk import span_from_sdk
from blamespan.rebuilding.rebuild import rebuild
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan_lab.console import show_progress
from blamespan_lab.make.conflicts.playing import play
from blamespan_lab.make.conflicts.recipe import ConflictRecipe
from blamespan_lab.make.conflicts.scenes import Scene, make_scenes
from blamespan_lab.make.corpus.storage import check_is_new, compress_documents, write_ending
from blamespan_lab.make.recording import Recording
from blamespan_lab.make.run_labels import Decisive, FaultLabel, Purpose, RunLabel

__all__ = ["PlayedConflict", "generate_conflicts", "played_conflicts"]

_PURPOSES: Final[dict[str, Purpose]] = {"broken": "faulty", "kept": "harmless"}


@dataclass(frozen=True, slots=True)
class PlayedConflict:
    """A scene as it was recorded.

    Attributes:
        scene: What was played.
        spans: The run's, and
        trace: the run, rebuilt from them.
        step: Index of the step at which the writer does what it does.
    """

    scene: Scene
    spans: tuple[Span, ...]
    trace: MessageActionTrace
    step: int

    @property
    def is_broken(self) -> bool:
        """Whether the writer obeys who has the lower rank."""
        return self.scene.way == "broken"

    def label(self, recipe: str) -> RunLabel:
        """Return what is known of the run, made by the recipe of this name."""
        scene, step = self.scene, self.trace.steps[self.step]
        place = (step.agent, step.index, step.span_id, (scene.mode,) if self.is_broken else ())
        return RunLabel(
            trace_id=self.trace.trace_id,
            outcome="failure" if self.is_broken else "success",
            purpose=_PURPOSES.get(scene.way, "clean"),
            family=scene.kind,
            topology=" over ".join(scene.pair),
            framework=scene.framework,
            cast="",
            seed=scene.number,
            decisive=Decisive(*place) if self.is_broken else None,
            faults=(FaultLabel(*place, "response", f"conflict:{scene.kind}"),) if self.is_broken else (),
            carried_by=(),
            twin="",
            verified=self.is_broken,
            recipe=recipe,
        )


def played_conflicts(recipe: ConflictRecipe, recording: Recording) -> Iterator[PlayedConflict]:
    """Play the scenes of *recipe*, in order; the same recipe gives the same runs.

    Raises:
        BlamespanError: if a run lacks the step that its script ends with: a framework left it out.
    """
    for scene in make_scenes(recipe):
        _, recorded = recording.record(repr((recipe.seed, recipe.wordings, scene.number)), lambda s=scene: play(s))  # type: ignore[misc]  # bound in the loop
        spans = tuple(span_from_sdk(span) for span in recorded)
        trace = rebuild(spans)
        yield PlayedConflict(scene, spans, trace, _find_act(scene, trace))


def _find_act(scene: Scene, trace: MessageActionTrace) -> int:
    for step in reversed(trace.steps):
        is_act = step.content.startswith(f"{scene.act}(") if scene.is_call else step.content.endswith(scene.act)
        if step.agent == scene.writer and is_act and (step.kind == "tool_call") == scene.is_call:
            return step.index
    raise BlamespanError(f"expected {scene.writer} to do {scene.act!r:.80} in scene {scene.number}, got no such step")


def generate_conflicts(recipe: ConflictRecipe, out: Path) -> dict[str, Any]:
    """Make the runs of *recipe* in *out*, and return their description.

    Args:
        recipe: What to make.
        out: New or empty.

    Raises:
        ConfigError: if *out* holds anything.
        BlamespanError: if *out* cannot be written.
        MissingExtra: if a framework is not installed.
    """
    check_is_new(out)
    documents: list[str] = []
    labels: list[RunLabel] = []
    with Recording() as recording:
        for played in show_progress(played_conflicts(recipe, recording), "playing", total=recipe.runs):
            documents.append(request_to_json(ExportTraceServiceRequest(resource_spans=spans_to_proto(played.spans))))
            labels.append(played.label(recipe.name))
    tally = Counter(f"kept: {label.purpose}" for label in labels) + Counter(f"kind: {label.family}" for label in labels)
    try:
        (out / "runs").mkdir(parents=True, exist_ok=True)
        (out / "runs" / "0000.jsonl.gz").write_bytes(compress_documents(documents))
        return write_ending(out, labels, asdict(recipe), tally)
    except OSError as error:
        raise BlamespanError(f"expected a folder that can be written, got {error}. Name another with --out") from error
