"""The second judge: it learns from transcripts what it finds on teams unseen, and is heard where its kind of run is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from blamespan.errors import TracerUnavailable
from blamespan.importing.recorded import Fault, Origin, RecordedRun
from blamespan.taxonomy import mode
from blamespan.tracers import ask_tracer
from blamespan_lab.network.examples import NetworkExample, examples_of, scaled_examples
from blamespan_lab.network.fitting_prose import Apart, fit_prose
from blamespan_lab.network.training_data import bare_run
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.network.inputs import feature_names, read_inputs
from blamespan_tracer.alternatives.network.prose_expert import ProseExpert, contextual_features, expert_columns
from blamespan_tracer.alternatives.network.tracer import NetworkTracer
from blamespan_tracer.alternatives.network.weights import Network
from tests.tracer_model.alternatives.network.networks import VOCABULARY, drawn_network
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


def scaled(runs: list[RecordedRun]) -> list[NetworkExample]:
    network = drawn_network()
    return scaled_examples(examples_of(runs, LEXICON, VOCABULARY, FEATURES), network.mean, network.spread)


@pytest.fixture(scope="module")
def fitted() -> tuple[ProseExpert, list[list[Apart]]]:
    runs = [written(seed, f"team {seed % 3}") for seed in range(60)]
    forms = (scaled(runs), scaled([bare_run(run) for run in runs]))
    return fit_prose(forms, [], [scaled([simulated(seed) for seed in range(60)])], FEATURES, 90.0)


@pytest.fixture(scope="module")
def judge(fitted: tuple[ProseExpert, list[list[Apart]]]) -> ProseExpert:
    return fitted[0]


def test_what_is_learnt_holds_for_teams_unseen(fitted: tuple[ProseExpert, list[list[Apart]]]) -> None:
    """Each team's runs, in either form, are judged by weights that saw none of them, and the guess is found."""
    _, (recorded, bare) = fitted

    right = [int(each.pointed.scores[:-1].argmax()) == each.pointed.decisive for each in (*recorded, *bare)]
    assert [each.example.trace_id for each in recorded] == [each.example.trace_id for each in bare]
    assert len(right) == 120
    assert np.mean(right) >= 0.9


def test_each_run_goes_to_the_judge_that_knows_its_kind(judge: ProseExpert) -> None:
    """Runs that were not fitted to are told apart by how they read."""
    prose = [judge.gate_weight(each.inputs) for each in scaled([written(seed, "new") for seed in range(90, 100)])]
    terse = [judge.gate_weight(each.inputs) for each in scaled([simulated(seed) for seed in range(90, 100)])]

    assert min(prose) > 0.9
    assert max(terse) < 0.1


def test_shares_add_up_over_those_who_can_be_blamed(judge: ProseExpert) -> None:
    """Nobody else gets any; where nobody can be blamed, the other judge's shares stay."""
    (run,) = scaled([written(0, "x")])
    some = replace(run.inputs, can_be_blamed=np.array([True, False, True, False, False, True]))
    nobody = replace(run.inputs, can_be_blamed=np.zeros(6, np.bool_))
    other = np.full(6, 1 / 6, np.float32)

    shares, _ = judge.predict(some)
    assert shares.sum() == pytest.approx(1)
    assert not shares[~some.can_be_blamed].any()
    assert (judge.mix(nobody, other) == other).all()


def test_words_that_aegis_taught_are_not_read(judge: ProseExpert) -> None:
    """The lexicon's scores of injected faults say nothing of other teams."""
    assert [name for name in FEATURES if name.startswith("lexicon, ")]
    assert not [FEATURES[place] for place in judge.columns if FEATURES[place].startswith("lexicon, ")]


def test_steps_are_read_among_their_neighbours_and_their_agents() -> None:
    """Before the first step and after the last there is nothing, in the run and among an agent's own."""
    run = read_inputs(
        [team(("User", "Hello."), ("A", "One."), ("B", "Two."), ("A", "Three."))], LEXICON, VOCABULARY, FEATURES
    )[0]
    features = np.array([[8.0], [1.0], [2.0], [4.0]], np.float32)
    run = replace(run, features=features, can_be_blamed=np.array([False, True, True, True]))

    ways = contextual_features(run, np.array([0])).T.tolist()
    own, after, before, own_after, own_before, news, record, own_record, ranks = ways

    assert own == [8, 1, 2, 4]
    assert after == [0.5, 1, 2, 0]
    assert before == [0, 4, 0.5, 1]
    assert own_after == [0, 2, 0, 0]
    assert own_before == [0, 0, 0, 0.5]
    assert news == pytest.approx([0, -1.75, -0.8333333, 0.125])
    assert record == [0.5, 0, 0, 0]
    assert own_record == [0, 0, 0, 0.5]  # the first of an agent is none
    assert ranks == pytest.approx([1, -2 / 3, 0, 2 / 3])  # who asks is compared with the three that decide


def test_rank_is_of_how_many_more_it_is_above_than_below() -> None:
    """Ties count as neither; every column by itself, however far apart their values lie."""
    values = np.random.default_rng(0).normal(scale=100, size=(40, 7)).round(-1).astype(np.float32)
    run = read_inputs([team(*((name, "One.") for name in "AB" * 20))], LEXICON, VOCABULARY, FEATURES)[0]
    ranks = contextual_features(replace(run, features=values), np.arange(7))[:, -7:]

    above, below = values[:, None] > values[None], values[:, None] < values[None]
    assert ranks == pytest.approx(above.mean(axis=1) - below.mean(axis=1))


def test_file_keeps_the_judge(judge: ProseExpert, tmp_path: Path) -> None:
    """What is loaded judges alike, to the bit."""
    replace(drawn_network(), prose_expert=judge).save(tmp_path / "n.safetensors")

    loaded = Network.load(tmp_path / "n.safetensors").prose_expert
    assert loaded is not None
    assert all((value == getattr(judge, name)).all() for name, value in loaded.tensors().items())


@pytest.mark.parametrize("name", ["columns", "pointer", "modes", "gate"])
def test_judge_that_does_not_fit_its_network_is_refused(judge: ProseExpert, tmp_path: Path, name: str) -> None:
    """Columns that the network has not, and weights of another size, are an error that says so."""
    value = getattr(judge, name)
    wrong = replace(judge, **{name: value + 10_000 if name == "columns" else value[:-1]})
    replace(drawn_network(), prose_expert=wrong).save(tmp_path / "n.safetensors")

    with pytest.raises(TracerUnavailable, match="of another size"):
        Network.load(tmp_path / "n.safetensors")


def test_nobody_can_tell_whether_prose_failed(judge: ProseExpert) -> None:
    """Suspects are named with a failure score of a half, unless the run is known to have failed; it never abstains."""
    tracer = NetworkTracer(replace(drawn_network(alarm=0.9999), prose_expert=judge), LEXICON)
    known = written(7, "x").trace
    unknown = replace(known, outcome="unknown")

    of_known, of_unknown = ask_tracer(tracer, [known, unknown])
    assert of_unknown.abstained is None
    assert of_unknown.failure_score <= 0.5
    assert of_known.failure_score > 0.9
    assert of_known.decisive_step == of_unknown.decisive_step


def test_each_message_of_several_in_a_row_is_blamed_for_itself(judge: ProseExpert) -> None:
    """Who guesses in one of two messages is blamed for that one, whatever kind of words they are."""
    tracer = NetworkTracer(replace(drawn_network(), prose_expert=judge), LEXICON)
    guess, harmless = PROSE * 6 + "Probably around seven, I guess.", PROSE * 2
    for first, second, blamed in ((guess, harmless, 1), (harmless, guess, 2)):
        trace = team(("A", PROSE * 2), ("B", first, "plan"), ("B", second), ("C", PROSE * 2))

        (verdict,) = tracer.attribute([trace])
        assert verdict.decisive_step == blamed


def test_bare_run_tells_who_said_what_and_nothing_else() -> None:
    """Tools' answers still say whose they are."""
    whole = team(
        ("A", "First this.", "plan"),
        ("A", "look({})", "tool_call"),
        ("A", "It is 7.", "tool_result"),
        ("B", "Seven."),
        recipients={0: ["B"]},
        inputs={2: [1], 3: [0, 2]},
    )
    failed = tuple(replace(step, status="error", error="timeout") for step in whole.steps)
    run = bare_run(RecordedRun("x:1", replace(whole, steps=failed), ()))

    assert [step.kind for step in run.trace.steps] == ["message", "tool_call", "tool_result", "message"]
    assert [step.inputs for step in run.trace.steps] == [(), (), (1,), ()]
    assert {(step.recipients, step.status, step.error) for step in run.trace.steps} == {((), "unset", None)}
    assert [step.content for step in run.trace.steps] == [step.content for step in whole.steps]


def test_batch_does_not_change_a_verdict(judge: ProseExpert) -> None:
    """Alone or among others, a run gets the same verdict to the bit."""
    tracer = NetworkTracer(replace(drawn_network(), prose_expert=judge), LEXICON)
    traces = [written(seed, "x").trace for seed in range(6)] + [simulated(seed).trace for seed in range(6)]

    together = tracer.attribute(traces)
    assert [tracer.attribute([trace])[0] for trace in traces] == together
    assert tracer.attribute(traces[::-1])[::-1] == together


def test_columns_are_all_but_the_lexicons() -> None:
    """Of a run's inputs, in their order."""
    (run,) = read_inputs([written(0, "x").trace], LEXICON, VOCABULARY, FEATURES)

    columns = expert_columns(FEATURES)
    assert run.features.shape[1] == len(FEATURES)
    assert len(columns) == sum(not name.startswith("lexicon, ") for name in FEATURES)
