"""Weights and false alarms: from the environment or by flags, wrong ones with a word on what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest

from blamespan.errors import ConfigError, TracerUnavailable
from blamespan.tracers import load_tracer, settings_of, tracer_options
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.network.inputs import read_inputs
from blamespan_tracer.alternatives.network.tracer import NetworkTracer, read_max_false_alarms
from blamespan_tracer.alternatives.network.weights import Network
from tests.tracer_model.alternatives.network.networks import (
    FEATURES,
    VOCABULARY,
    drawn_network,
    random_team,
    tracer_with,
)

ALARMS = ((1.0, 0.9), (5.0, 0.6), (10.0, 0.4))


@pytest.mark.parametrize(
    ("said", "share"), [("0.05", 0.05), ("5%", 0.05), ("0.5 %", 0.005), ("0", 0.0), (".1", 0.1), ("", None)]
)
def test_false_alarms_are_a_share_or_percent(said: str, share: float | None) -> None:
    """Both spellings mean the same; nothing said leaves what the weights were trained for."""
    found = read_max_false_alarms({"BLAMESPAN_MAX_FALSE_ALARMS": said})

    assert found == pytest.approx(share)


@pytest.mark.parametrize("said", ["5", "1", "100%", "-0.1", "nan", "inf", "1e-2", ".", "%", "five", "0.05.", "\u0665%"])
def test_false_alarms_that_are_no_share_are_refused(said: str) -> None:
    """A bare 5 may be five percent or a slip: it is asked back."""
    with pytest.raises(ConfigError, match=r"such as 0\.05 or 5%, got"):
        read_max_false_alarms({"BLAMESPAN_MAX_FALSE_ALARMS": said})


def test_the_largest_budget_that_is_small_enough_is_used() -> None:
    """At most so many false alarms: never more than asked for."""
    network = replace(drawn_network(), alarms=ALARMS)

    found = {share: network.with_alarm_for(share) for share in (0.01, 0.05, 0.07, 0.5)}

    assert {share: each.alarm for share, each in found.items()} == {0.01: 0.9, 0.05: 0.6, 0.07: 0.6, 0.5: 0.4}
    assert found[0.07].false_alarms == 0.05


@pytest.mark.parametrize(("alarms", "message"), [((), "alarms for 0.05[.]"), (ALARMS, "alarms for 0.01, 0.05, 0.1[.]")])
def test_a_budget_that_is_not_on_file_is_refused(alarms: tuple[tuple[float, float], ...], message: str) -> None:
    """An alarm that nobody measured would promise what nobody knows."""
    with pytest.raises(ConfigError, match=message):
        replace(drawn_network(), alarms=alarms).with_alarm_for(0.001)


def test_the_budget_that_weights_were_trained_for_is_on_file() -> None:
    """Weights that were trained for 5 % have that alarm, whatever else they lack."""
    network = drawn_network(0.7)

    assert network.with_alarm_for(0.05) == network.with_alarm_for(0.3) == network


def test_smaller_budgets_leave_more_runs_without_a_verdict() -> None:
    """The alarm decides on the chance of failure."""
    run = random_team(3)
    chance = (
        tracer_with()
        .predict(read_inputs([run], LexicalTracer.bundled().lexicon, VOCABULARY, FEATURES))[0]
        .failure_probability
    )
    strict, lax = (tracer_with(alarm=chance + step, abstains=True) for step in (0.001, -0.001))

    assert strict.attribute([run])[0].abstained is not None
    assert lax.attribute([run])[0].abstained is None


def test_alarms_come_back_as_they_were(tmp_path: Path) -> None:
    """A file keeps its budgets; one without any is read as before."""
    with_alarms = replace(drawn_network(), alarms=ALARMS)
    with_alarms.save(tmp_path / "with.safetensors")
    drawn_network().save(tmp_path / "without.safetensors")

    assert Network.load(tmp_path / "with.safetensors").alarms == ALARMS
    assert Network.load(tmp_path / "without.safetensors").alarms == ()


@pytest.mark.parametrize("alarms", [((5.0, float("nan")),), ((500.0, 0.5),), ((-1.0, 0.5),)])
def test_alarms_that_are_none_are_refused(tmp_path: Path, alarms: tuple[tuple[float, float], ...]) -> None:
    """A file may say anything; an alarm of NaN would never ring."""
    replace(drawn_network(), alarms=alarms).save(tmp_path / "n.safetensors")

    with pytest.raises(TracerUnavailable, match="alarms"):
        Network.load(tmp_path / "n.safetensors")


def test_tracer_in_use_keeps_to_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights and budget are read when the tracer is loaded."""
    replace(drawn_network(), alarms=ALARMS).save(tmp_path / "n.safetensors")
    monkeypatch.setenv("BLAMESPAN_NETWORK_WEIGHTS", str(tmp_path / "n.safetensors"))
    monkeypatch.setenv("BLAMESPAN_MAX_FALSE_ALARMS", "10%")

    tracer = load_tracer("network")

    assert settings_of(tracer) == {"max_false_alarms": 0.1}


@pytest.mark.parametrize("name", ["lexical", "checks"])
def test_tracers_without_an_alarm_refuse_a_budget(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing on them was measured on sound runs: the message says who can."""
    monkeypatch.setenv("BLAMESPAN_MAX_FALSE_ALARMS", "0.05")

    with pytest.raises(ConfigError, match=f"got '{name}', which is not.*--tracer network"):
        load_tracer(name)


def test_flag_sets_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag is another spelling of its variable."""
    monkeypatch.setenv("BLAMESPAN_MAX_FALSE_ALARMS", "")
    found: list[float | None] = []
    command = click.Command(
        "asked", params=tracer_options(), callback=lambda: found.append(read_max_false_alarms(os.environ))
    )

    command.main(["--max-false-alarms", "5%"], standalone_mode=False)

    assert found == [0.05]


def test_weights_in_use_are_those_the_variable_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`BLAMESPAN_NETWORK_WEIGHTS` replaces the bundled weights, and the verdicts say which spoke."""
    path = tmp_path / "own.safetensors"
    digest = drawn_network().save(path)
    monkeypatch.setenv("BLAMESPAN_NETWORK_WEIGHTS", str(path))

    assert NetworkTracer.in_use().identity.weights == digest
    monkeypatch.setenv("BLAMESPAN_NETWORK_WEIGHTS", str(tmp_path / "none"))
    with pytest.raises(TracerUnavailable, match="expected a network in"):
        NetworkTracer.in_use()


def test_no_torch_is_needed() -> None:
    """Loading the network and judging a run imports no PyTorch, installed or not."""
    code = (
        "import sys; from blamespan.tracers import load_tracer; from blamespan.trace import *; "
        "step = Step(0, '0' * 15 + '1', 'A', content='The sum is 2 + 2 = 5. It is done.'); "
        "load_tracer('network').attribute([MessageActionTrace('1' * 32, '', (step,), (Agent('A'),))]); "
        "print('torch' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "False"
