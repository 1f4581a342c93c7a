"""The form by which a person corrects a verdict on the page, and what comes of it.

What is kept is a line in a file beside the store; traces and verdicts stay as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from blamespan.analysis.labelling.choices import MODES
from blamespan.analysis.labelling.dialogue import said_by
from blamespan.analysis.showing.legible import clean
from blamespan.analysis.showing.run_view import RunView
from blamespan.attribution import Attribution
from blamespan.errors import UnreadableInput
from blamespan.labels.file import LABELS_FILE, LabelsFile
from blamespan.labels.people import LabelAnswer, PersonLabel, by_run
from blamespan.taxonomy import ErrorMode, mode
from blamespan.trace import MessageActionTrace
from blamespan_collector.judged_runs import runs_of
from blamespan_collector.page.forms import FormTokens, read_form
from blamespan_collector.settings import ListenAddress
from blamespan_collector.store import RunStore

_logger = logging.getLogger("blamespan.collector")

_ANSWERS: Mapping[LabelAnswer, str] = {
    "agrees": "The verdict is right",
    "corrects": "Another step or error mode decided it:",
    "no_failure": "No failure: the run did what it should",
    "no_agent": "It failed, but by no agent's fault",
    "unsure": "I looked at it and am unsure",
}


@dataclass(frozen=True, slots=True)
class LabelForm:
    """What the form of one run shows.

    Attributes:
        token: Proof that the form was read on this page.
        first_span_id: Which of the trace's runs it is about.
        answers: Each answer with its words; without a verdict there is none to agree with.
        modes: Error modes to choose from.
        step: The step that is filled in, or empty.
        mode: The mode that is chosen, or empty.
        last: The highest index of a step.
        by: The name that is filled in.
        given: What people have said already, as rows of text: who, when, what, why.
    """

    token: str
    first_span_id: str
    answers: Sequence[tuple[str, str]]
    modes: Sequence[ErrorMode]
    step: str
    mode: str
    last: int
    by: str
    given: Sequence[tuple[str, str, str, str]]


class Labelling:
    """Shows and takes labels. Only where the page listens on loopback: elsewhere anybody could label.

    Args:
        store: What is labelled; labels are kept beside it.
        address: Where the page is served.
    """

    def __init__(self, store: RunStore, address: ListenAddress) -> None:
        self._store = store
        self._file = LabelsFile(store.path.parent / LABELS_FILE)
        self._tokens = FormTokens()
        self._is_open = address.is_loopback
        self._known: tuple[object, dict[str, list[PersonLabel]]] = (None, {})
        self.routes = [Route("/run/{trace_id}/label", self._take, methods=["POST"])] if self._is_open else []

    def form(self, view: RunView, by: str) -> LabelForm | None:
        """Make the form of a run; None where no labels are taken.

        Args:
            view: The run.
            by: The name to fill in.
        """
        if not self._is_open or not view.steps:
            return None
        trace, chosen = view.trace, view.decisive
        first = trace.steps[0].span_id
        canonical = view.mode.mode if view.mode else None
        modes = MODES if canonical is None or canonical in MODES else (canonical, *MODES)
        return LabelForm(
            token=self._tokens.make(trace.trace_id, first),
            first_span_id=first,
            answers=[item for item in _ANSWERS.items() if chosen is not None or item[0] != "agrees"],
            modes=modes,
            step=str(chosen.step.index) if chosen else "",
            mode=str(canonical or ""),
            last=len(trace.steps) - 1,
            by=clean(by),
            given=[_row(label) for label in self._labels().get(trace.trace_id, ()) if label.concerns(trace)],
        )

    async def _take(self, request: Request) -> Response:
        """Keep what a form says, and show the run again."""
        form = await read_form(request)
        trace_id = await run_in_threadpool(self._keep, request.path_params["trace_id"], form)
        return RedirectResponse(f"/run/{trace_id}?{urlencode({'by': form['by']})}#labels", 303)

    def _keep(self, trace_id: str, form: Mapping[str, str]) -> str:
        trace, verdict = self._run(trace_id, form)
        answer = next((known_answer for known_answer in _ANSWERS if known_answer == form.get("answer")), None)
        if answer is None:
            raise HTTPException(400, "Choose what you say of the run, then keep it.")
        step, modes = _step_and_modes(answer, form, verdict)
        label = PersonLabel.of(
            trace,
            answer,
            form.get("by", "").strip(),
            step=step,
            modes=modes,
            comment=form.get("comment", ""),
            shown=None if verdict is None else said_by(verdict),
        )
        self._file.add(label)
        return label.trace_id

    def _run(self, trace_id: str, form: Mapping[str, str]) -> tuple[MessageActionTrace, Attribution | None]:
        """Find what a form is about, if it was read here."""
        stored = self._store.run(trace_id)
        if stored is None:
            raise HTTPException(404, f"No run {trace_id[:64]!r} is stored. It may have been let go.")
        first = form.get("run", "")
        self._tokens.check(form, stored.summary.trace_id, first)
        for run, verdict in runs_of("", stored.spans):
            if run.trace.steps and run.trace.steps[0].span_id == first:
                return run.trace, verdict
        raise HTTPException(409, "More spans of this run have come meanwhile. Open it and label it again.")

    def _labels(self) -> Mapping[str, Sequence[PersonLabel]]:
        """Read the labels, again when the file has changed."""
        try:
            about = self._file.path.stat()
            mark = (about.st_mtime_ns, about.st_size, about.st_ino)
            if self._known[0] != mark:
                self._known = (mark, by_run(self._file.read([])))
        except FileNotFoundError:
            return {}
        except (OSError, UnreadableInput) as error:
            _logger.warning("labels cannot be shown: %s", error)
            return {}
        return self._known[1]


def _step_and_modes(
    answer: LabelAnswer, form: Mapping[str, str], verdict: Attribution | None
) -> tuple[int | None, list[ErrorMode]]:
    if answer == "agrees":
        if verdict is not None and verdict.cause is not None:
            raise HTTPException(400, "No agent is blamed. Say that it failed by no agent's fault, or name the step.")
        if verdict is None or verdict.decisive_step is None:
            raise HTTPException(400, "There is no verdict to agree with. Name the step that decided the failure.")
        stated = said_by(verdict)
        return verdict.decisive_step, [mode(stated.mode)] if stated.mode else []
    if answer != "corrects":
        return None, []
    typed, named = form.get("step", "").strip(), form.get("mode", "")
    if not (typed.isascii() and typed.isdigit() and len(typed) < 9):
        raise HTTPException(400, f"Expected the number of the step that decided the failure, got {typed[:20]!r}.")
    return int(typed), [mode(named)] if named else []


def _row(label: PersonLabel) -> tuple[str, str, str, str]:
    named = label.decisive
    answer = _ANSWERS[label.answer].rstrip(":")
    if named is not None and label.answer == "corrects":
        answer = f"step {named.step}, {named.agent}{': ' if named.modes else ''}{_names(named.modes)}"
    return clean(label.by), label.at, clean(answer), clean(label.comment)


def _names(modes: Sequence[str]) -> str:
    return ", ".join(f"{mode(name).name} ({name})" for name in modes)
