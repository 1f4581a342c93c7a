"""The second judge: it learns from transcripts what it finds on teams unseen, and is heard where its kind of run is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from blamespan.errors import TracerUnavailable
from blamespan.recorded import Fault, Origin, RecordedRun
from blamespan.taxonomy import mode
from blamespan_tracer.lexical import LexicalTracer
from blamespan_tracer.network.examples import Example, examples_of
from blamespan_tracer.network.fitting_prose import Apart, fit_prose, tuned_prose
from blamespan_tracer.network.inputs import feature_names, run_inputs
from blamespan_tracer.network.prose import ProseJudge, columns_read, in_context
from blamespan_tracer.network.tracer import NetworkTracer
from blamespan_tracer.network.weights import Network
from tests.tracer_model.network.networks import VOCABULARY, drawn_network
from tests.tracer_model.representation.teams import team

LEXICON = LexicalTracer.bundled().lexicon
FEATURES = feature_names(LEXICON)
PROSE = "Let me go through what we have so far, and what would have to be looked up before anything can be said of it. "


def written(seed: int, team_name: str) -> RecordedRun:
    """A run whose agents write at length; one of them guesses at greater length, and that decides it."""
    rng = Random(seed)
    said = [(agent, PROSE * rng.randint(2, 3)) for agent in "ABCABC"]
    wrong = rng.randrange(6)
    said[wrong] = (said[wrong][0], PROSE * 6 + "Probably around seven, I guess.")
    trace = replace(
        team(*said, task=f"Count the units of store {seed}."), trace_id=f"{seed + 1:032x}", outcome="failed"
    )
    fault = Fault(said[wrong][0], mode("mast:FM-3.2" if wrong % 2 else "blamespan:X1"), wrong)
    return RecordedRun(f"x:{seed}", trace, (fault,), Origin("faulty", team_name, "", "", decisive=wrong))


def simulated(seed: int) -> RecordedRun:
    rng = Random(seed)
    said = [(agent, f"The {rng.choice('abcdefgh')} part holds {rng.randrange(90)} units.") for agent in "ABCABC"]
    trace = replace(team(*said, task=f"Count {seed}."), trace_id=f"{seed + 1000:032x}", outcome="succeeded")
    return RecordedRun(f"y:{seed}", trace, (), Origin("clean", "tables", "chain", "langgraph"))


def scaled(runs: list[RecordedRun]) -> list[Example]:
    network = drawn_network()
    return [
        replace(each, inputs=replace(each.inputs, features=network.scaled(each.inputs.features)))
        for each in examples_of(runs, LEXICON, VOCABULARY)
    ]


@pytest.fixture(scope="module")
def fitted() -> tuple[ProseJudge, list[Apart]]:
    transcripts = scaled([written(seed, f"team {seed % 3}") for seed in range(60)])
    return fit_prose(transcripts, [], [scaled([simulated(seed) for seed in range(60)])], FEATURES, 90.0)


@pytest.fixture(scope="module")
def judge(fitted: tuple[ProseJudge, list[Apart]]) -> ProseJudge:
    return fitted[0]


def test_what_is_learnt_holds_for_teams_unseen(fitted: tuple[ProseJudge, list[Apart]]) -> None:
    """Each team's runs are judged by weights that saw none of them, and the guess is found."""
    _, apart = fitted

    right = [int(each.pointed.scores[:-1].argmax()) == each.pointed.decisive for each in apart]
    assert len(right) == 60
    assert np.mean(right) >= 0.9


def test_each_run_goes_to_the_judge_that_knows_its_kind(judge: ProseJudge) -> None:
    """Runs that were not fitted to are told apart by how they read."""
    prose = [judge.weight(each.inputs) for each in scaled([written(seed, "new") for seed in range(90, 100)])]
    terse = [judge.weight(each.inputs) for each in scaled([simulated(seed) for seed in range(90, 100)])]

    assert min(prose) > 0.9
    assert max(terse) < 0.1


def test_shares_add_up_over_those_who_can_be_blamed(judge: ProseJudge) -> None:
    """Nobody else gets any; where nobody can be blamed, the other judge's shares stay."""
    (run,) = scaled([written(0, "x")])
    some = replace(run.inputs, can_be_blamed=np.array([True, False, True, False, False, True]))
    nobody = replace(run.inputs, can_be_blamed=np.zeros(6, np.bool_))
    other = np.full(6, 1 / 6, np.float32)

    shares, _ = judge.judged(some)
    assert shares.sum() == pytest.approx(1)
    assert not shares[~some.can_be_blamed].any()
    assert (judge.mixed(nobody, other) == other).all()


def test_words_that_aegis_taught_are_not_read(judge: ProseJudge) -> None:
    """The lexicon's scores of injected faults say nothing of other teams."""
    assert [name for name in FEATURES if name.startswith("lexicon, ")]
    assert not [FEATURES[place] for place in judge.columns if FEATURES[place].startswith("lexicon, ")]


def test_steps_are_read_among_their_neighbours_and_their_agents() -> None:
    """Before the first step and after the last there is nothing; who leads is told by the columns that say so."""
    run = run_inputs([team(("User", "Hello."), ("A", "One."), ("B", "Two."), ("A", "Three."))], LEXICON, VOCABULARY)[0]
    features = np.array([[8.0, -0.5], [1.0, 3.0], [2.0, -0.5], [4.0, 3.0]], np.float32)
    run = replace(run, features=features, can_be_blamed=np.array([False, True, True, True]))

    own, after, before, of_agent, leads, length = in_context(run, np.array([0]), np.array([1])).T.tolist()

    assert own == [8, 1, 2, 4]
    assert after == [0.5, 1, 2, 0]
    assert before == [0, 4, 0.5, 1]
    assert of_agent == [4, 1.25, 1, 1.25]
    assert leads == [0, 0.5, 0, 2]
    assert length == [-4, -0.5, -1, -2]  # three decisions are as short as it gets


def test_labels_of_ones_own_move_it_the_more_the_more_there_are(judge: ProseJudge) -> None:
    """Where mistakes lie elsewhere than it learnt, labels make them likelier, a few hardly; none leave it as it is."""
    runs = [
        replace(each, decisive=(each.decisive + 1) % 6)
        for each in scaled([written(seed, "own") for seed in range(200, 260)])
    ]

    def likelihood(of: ProseJudge) -> float:
        return float(np.mean([np.log(of.judged(each.inputs)[0][each.decisive] + 1e-9) for each in runs]))

    few, many = tuned_prose(judge, runs[:3]), tuned_prose(judge, runs)
    assert likelihood(judge) < likelihood(few) < likelihood(many)
    moved = [float(np.linalg.norm(each.pointer - judge.pointer)) for each in (few, many)]
    assert moved[0] < moved[1] / 2
    assert tuned_prose(judge, []) is judge


def test_file_keeps_the_judge(judge: ProseJudge, tmp_path: Path) -> None:
    """What is loaded judges alike, to the bit."""
    replace(drawn_network(), prose=judge).save(tmp_path / "n.safetensors")

    loaded = Network.load(tmp_path / "n.safetensors").prose
    assert loaded is not None
    assert all((value == getattr(judge, name)).all() for name, value in loaded.tensors().items())


@pytest.mark.parametrize("name", ["columns", "pointer", "modes", "gate"])
def test_judge_that_does_not_fit_its_network_is_refused(judge: ProseJudge, tmp_path: Path, name: str) -> None:
    """Columns that the network has not, and weights of another size, are an error that says so."""
    value = getattr(judge, name)
    wrong = replace(judge, **{name: value + 10_000 if name == "columns" else value[:-1]})
    replace(drawn_network(), prose=wrong).save(tmp_path / "n.safetensors")

    with pytest.raises(TracerUnavailable, match="of another size"):
        Network.load(tmp_path / "n.safetensors")


def test_nobody_can_tell_whether_prose_failed(judge: ProseJudge) -> None:
    """Suspects are named with a failure score of a half, unless the run is known to have failed; it never abstains."""
    tracer = NetworkTracer(replace(drawn_network(alarm=0.9999), prose=judge), LEXICON)
    known = written(7, "x").trace
    unknown = replace(known, outcome="unknown")

    of_known, of_unknown = tracer.attribute([known, unknown])
    assert of_unknown.abstained is None
    assert of_unknown.failure_score <= 0.5
    assert of_known.failure_score > 0.9
    assert of_known.decisive_step == of_unknown.decisive_step


def test_blame_for_a_thought_that_is_said_lands_on_the_longer_of_the_two(judge: ProseJudge) -> None:
    """Who thinks and then speaks decides once; the blame is for where most of it stands."""
    tracer = NetworkTracer(replace(drawn_network(), prose=judge), LEXICON)
    long, short = PROSE * 9 + "I guess seven.", PROSE
    for first, second, blamed in ((long, short, 1), (short, long, 2)):
        trace = team(("A", PROSE * 2), ("B", first), ("B", second), ("C", PROSE * 2))
        thought = tuple(replace(step, kind="plan") if step.index == 1 else step for step in trace.steps)

        (verdict,) = tracer.attribute([replace(trace, steps=thought)])
        assert verdict.decisive_step == blamed
        assert verdict.steps[3 - blamed].score == 0


def test_batch_does_not_change_a_verdict(judge: ProseJudge) -> None:
    """Alone or among others, a run gets the same verdict to the bit."""
    tracer = NetworkTracer(replace(drawn_network(), prose=judge), LEXICON)
    traces = [written(seed, "x").trace for seed in range(6)] + [simulated(seed).trace for seed in range(6)]

    together = tracer.attribute(traces)
    assert [tracer.attribute([trace])[0] for trace in traces] == together
    assert tracer.attribute(traces[::-1])[::-1] == together


def test_columns_are_all_but_the_lexicons() -> None:
    """Of a run's inputs, in their order."""
    (run,) = run_inputs([written(0, "x").trace], LEXICON, VOCABULARY)

    columns = columns_read(FEATURES)
    assert run.features.shape[1] == len(FEATURES)
    assert len(columns) == sum(not name.startswith("lexicon, ") for name in FEATURES)
