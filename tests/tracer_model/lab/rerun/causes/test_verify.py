"""Verifying suspects: what counts as confirmed, refuted and undecided, within which budget, and the later verdict."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from blamespan.analysis.summary.statistics import Share
from blamespan.annotate import annotate, read_verdict, verdict_span
from blamespan.attribution import Attribution, TracerIdentity, Verification, check_verdict
from blamespan.errors import ConfigError, MalformedVerdict
from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.runs import split_runs
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_lab.rerun.causes.corrections import NoCorrection, UserCorrections
from blamespan_lab.rerun.causes.shapley import OutOfBudget
from blamespan_lab.rerun.causes.verify import CallBudget, VerifiedSuspect, list_suspects, verified_verdict, verify
from blamespan_lab.rerun.causes.worth import ReplayedWorth
from blamespan_lab.rerun.playback import Correction
from blamespan_lab.rerun.script import Script, script_of
from blamespan_lab.rerun.trials import Trial
from blamespan_lab.rerun.user_program import Ran

_SAID = ("I see 40 birds, and 2 more.", "It makes 52.", "It makes 52, agreed.", "The answer is 52.")
_AGENTS = ("counter", "adder", "checker", "reporter")


@pytest.fixture
def trace() -> MessageActionTrace:
    """Four messages, the second of which is wrong."""
    steps = tuple(
        Step(index, f"{index + 1:016x}", agent, content=said)
        for index, (agent, said) in enumerate(zip(_AGENTS, _SAID, strict=True))
    )
    return MessageActionTrace("a" * 32, "How many birds?", steps, tuple(Agent(name) for name in _AGENTS), "failed")


@pytest.fixture
def script(trace: MessageActionTrace) -> Script:
    """Its answers."""
    return script_of(trace)


@pytest.fixture
def verdict(trace: MessageActionTrace) -> Attribution:
    """Blames the reporter most, then the adder, then the counter."""
    return Attribution.of(
        trace, [0.1, 0.3, 0.0, 0.6], failure_score=0.9, tracer=TracerIdentity("any", "1"), coverage=0.8
    )


@dataclass
class _Team:
    """Trials whose end a function says; each asks as many models as there are steps behind."""

    succeeds: Callable[[Correction, int], bool]
    rest: Callable[[Correction], Sequence[str]] = lambda correction: ["something else"]
    trouble: str = ""
    tried: list[Correction] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def original(self) -> Trial:
        return Trial(Ran("The answer is 52.", False))

    def run(self, corrections: Sequence[Correction], most_asked: int) -> Trial:
        [correction] = corrections
        with self._lock:
            number = sum(other == correction for other in self.tried)
            self.tried.append(correction)
        asked = 3 - correction.step
        assert asked <= most_asked
        said = (("any", correction.text), *(("any", text) for text in self.rest(correction)))
        return Trial(Ran("", self.succeeds(correction, number)), said, asked, self.trouble)


_RIGHT = {0: "I see 41 birds.", 1: "It makes 42.", 3: "The answer is 50."}


def _verify(
    script: Script,
    verdict: Attribution,
    team: _Team,
    *,
    repeats: int = 3,
    budget: int = 100,
    texts: dict[int, str] | None = None,
) -> dict[int, VerifiedSuspect]:
    results = verify(
        list_suspects(script, verdict, 5),
        script,
        [UserCorrections(_RIGHT if texts is None else texts)],
        team,
        repeats=repeats,
        budget=CallBudget(budget),
    )
    return {result.suspect.step: result for result in results}


def test_step_that_mends_the_run_is_confirmed_and_the_others_are_refuted(script: Script, verdict: Attribution) -> None:
    """Confirmed is what succeeds when put right and fails as it was; refuted what fails all the same."""
    team = _Team(lambda correction, _: correction.text == "It makes 42.")
    results = _verify(script, verdict, team)

    assert {step: result.outcome for step, result in results.items()} == {0: "refuted", 1: "confirmed", 3: "refuted"}
    assert (results[1].corrected, results[1].unchanged) == (Share(3, 3), Share(0, 3))
    assert results[0].unchanged == Share(0, 0)


def test_run_that_succeeds_as_it_was_too_confirms_nobody(script: Script, verdict: Attribution) -> None:
    """What running again alone does is not put down to the correction."""
    results = _verify(script, verdict, _Team(lambda *_: True))

    assert {result.outcome for result in results.values()} == {"undecided"}
    assert all("tell that from chance" in result.reason for result in results.values())


@pytest.mark.parametrize(("successes", "outcome"), [(3, "confirmed"), (1, "undecided"), (0, "refuted")])
def test_luck_in_some_repeats_is_not_enough(script: Script, verdict: Attribution, successes: int, outcome: str) -> None:
    """With so few repeats only a clear difference confirms."""
    team = _Team(lambda correction, number: correction.text == "It makes 42." and number < successes)
    results = _verify(script, verdict, team)

    assert results[1].outcome == outcome
    assert results[1].corrected == Share(successes, 3)


def test_ignored_correction_decides_nothing(script: Script, verdict: Attribution) -> None:
    """A team that goes on word for word as before has not heard: neither confirmed nor refuted."""
    team = _Team(lambda *_: False, rest=lambda correction: _SAID[correction.step + 1 :])
    results = _verify(script, verdict, team)

    assert results[1].outcome == "undecided"
    assert "ignores the correction" in results[1].reason
    assert results[3].outcome == "refuted"  # nothing follows that could have ignored it


def test_correction_that_says_the_same_refutes_without_a_run(script: Script, verdict: Attribution) -> None:
    """A step that is right already is nobody's fault, and costs no call."""
    team = _Team(lambda *_: True)
    results = _verify(script, verdict, team, texts={step: _SAID[step] for step in _RIGHT})

    assert {result.outcome for result in results.values()} == {"refuted"}
    assert team.tried == []


def test_suspect_without_a_correction_is_undecided(script: Script, verdict: Attribution) -> None:
    """Nobody says what it should be, so nothing is tried."""
    results = _verify(script, verdict, _Team(lambda *_: True), texts={})

    assert {result.reason for result in results.values()} == {"nobody says what it should be"}


def test_cheapest_suspects_are_tried_first_within_the_budget(script: Script, verdict: Attribution) -> None:
    """The budget goes to the latest steps, which fewest models are asked after; the rest is said to be unpaid."""
    team = _Team(lambda correction, _: correction.text == "It makes 42.")
    results = _verify(script, verdict, team, budget=12)

    assert [correction.step for correction in team.tried] == [3, 3, 3, 1, 1, 1, 1, 1, 1]
    assert results[1].outcome == "confirmed"
    assert results[0].outcome == "undecided"
    assert "budget of model calls is spent" in results[0].reason


def test_trouble_decides_nothing(script: Script, verdict: Attribution) -> None:
    """A program that has changed or timed out says nothing of any step."""
    results = _verify(script, verdict, _Team(lambda *_: False, trouble="it did not end within 2 s"))

    assert {(result.outcome, result.reason) for result in results.values()} == {
        ("undecided", "it did not end within 2 s")
    }


def test_later_verdict_blames_what_was_confirmed_and_spares_what_was_refuted(
    trace: MessageActionTrace, script: Script, verdict: Attribution
) -> None:
    """The earliest confirmed step is decisive, with the next revision; on the spans each trial can be read."""
    team = _Team(lambda correction, _: correction.text == "It makes 42.")
    later = verified_verdict(trace, verdict, list(_verify(script, verdict, team).values()))
    [run] = split_runs(emit(trace))
    [annotated] = split_runs(annotate(run, later))
    span = verdict_span(run, later)

    assert (verdict.decisive_step, later.decisive_step, later.revision) == (3, 1, 1)
    assert later.steps[3].score == 0
    assert check_verdict(later, trace).verified == (
        Verification(0, "refuted", 3, 0),
        Verification(1, "confirmed", 3, 3, 3, 0),
        Verification(3, "refuted", 3, 0),
    )
    assert read_verdict(annotated) is not None
    assert read_verdict(annotated).verified == later.verified  # type: ignore[union-attr]
    assert span.attributes["blamespan.verified"] == "confirmed"
    assert span.attributes["blamespan.revision"] == 1
    assert span.attributes["blamespan.blame.step"] == 1


def test_later_verdict_stays_as_it_was_where_nothing_is_known(
    trace: MessageActionTrace, script: Script, verdict: Attribution
) -> None:
    """Undecided trials move nobody's share; where all suspects were refuted, somebody still did it."""
    undecided = verified_verdict(trace, verdict, list(_verify(script, verdict, _Team(lambda *_: True)).values()))
    refuted = verified_verdict(trace, verdict, list(_verify(script, verdict, _Team(lambda *_: False)).values()))

    assert undecided.steps == verdict.steps
    assert refuted.steps == verdict.steps
    assert {item.outcome for item in refuted.verified} == {"refuted"}


def test_verdict_with_impossible_counts_is_refused(trace: MessageActionTrace, verdict: Attribution) -> None:
    """More successes than repeats cannot be written down; sound ones can."""
    from dataclasses import replace

    sound = replace(verdict, verified=(Verification(1, "confirmed", 3, 3, 3, 0),))
    broken = replace(verdict, verified=(Verification(1, "confirmed", 3, 4),))

    assert check_verdict(sound, trace).verified == sound.verified
    with pytest.raises(MalformedVerdict, match="expected at most 3 repeats that succeeded, got 4"):
        check_verdict(broken, trace)


def test_correction_of_nobodys_step_is_refused(script: Script, verdict: Attribution) -> None:
    """A step that is not there cannot be suspected; one that is there can, though nobody blames it."""
    assert [suspect.step for suspect in list_suspects(script, verdict, 1, also=[2])] == [3, 2]
    with pytest.raises(ConfigError, match="expected corrections of agents' steps, 0 to 3, got one of step 9"):
        list_suspects(script, verdict, 5, also=[9])


def test_user_corrections_name_what_they_lack() -> None:
    """A step that the user does not correct is left to others."""
    corrections = UserCorrections({1: "It makes 42."})

    assert corrections.write(1) == Correction(1, "It makes 42.")
    with pytest.raises(NoCorrection):
        corrections.write(2)


def test_replayed_worth_refuses_what_the_budget_does_not_do_for(script: Script) -> None:
    """It is said before anything runs."""
    team = _Team(lambda *_: True)
    worth = ReplayedWorth({"adder": [Correction(1, "It makes 42.")]}, script, team, 1, CallBudget(2))

    assert worth([frozenset()]) == [0.0]
    with pytest.raises(OutOfBudget, match="1 coalitions take about 3 calls of models, and 2 are left"):
        worth([frozenset({"adder"})])
    assert team.tried == []
