"""The lists of wordings, as read from the TOML files of this folder: what stands in each list is said there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from blamespan_lab.make.data_files import read_data_file

_FOLDER = Path(__file__).parent

_Wordings: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FaultWordings:
    """What fault operators add to texts, prompts and results: `faults.toml`."""

    invented_constraints: _Wordings
    again: _Wordings
    redundant_steps: _Wordings
    lost_history: _Wordings
    other_role: _Wordings
    another_round: _Wordings
    unsupported: _Wordings
    invented_claims: _Wordings
    impossible_steps: _Wordings
    from_memory: _Wordings
    vague_amounts: _Wordings
    vague_names: _Wordings
    derailed: _Wordings
    withheld: _Wordings
    ignored: _Wordings
    own_view: _Wordings
    conclusions: _Wordings
    turned_round: _Wordings
    ends: _Wordings
    unchecked: _Wordings
    wrongly_checked: _Wordings
    checked_beside: _Wordings
    errors: tuple[tuple[str, str], ...]
    timeouts: _Wordings
    planted: _Wordings
    blurred_roles: _Wordings
    trust: _Wordings
    instructions: Mapping[str, _Wordings]


@dataclass(frozen=True, slots=True)
class TalkWordings:
    """What agents say around the facts: `talk.toml`."""

    openers: _Wordings
    hedges: _Wordings
    closers: _Wordings
    settled: _Wordings
    finals: _Wordings
    termination_words: _Wordings
    plans: _Wordings
    look_ups: _Wordings
    restates: _Wordings
    findings: _Wordings
    not_found: _Wordings
    asks: _Wordings
    progress: _Wordings
    approvals: _Wordings
    objections: _Wordings
    go_on: _Wordings
    debates: _Wordings
    adopts: _Wordings
    rechecks: _Wordings
    stands_by: _Wordings
    next_instructions: Mapping[str, _Wordings]


@dataclass(frozen=True, slots=True)
class ElaborationWordings:
    """What wordy agents put around what they say: `elaboration.toml`."""

    reasons: _Wordings
    sourced: _Wordings
    afterthoughts: _Wordings
    remarks: _Wordings
    recaps_open: _Wordings
    recaps_known: _Wordings
    recaps_orchestrator: _Wordings
    intros: Mapping[str, _Wordings]
    headings: Mapping[str, _Wordings]


@dataclass(frozen=True, slots=True)
class StatementWordings:
    """How facts and rules are stated: `statements.toml`."""

    worked: _Wordings
    corrections: _Wordings
    labels: _Wordings
    facts: Mapping[str, _Wordings]
    rules: Mapping[str, _Wordings]


@dataclass(frozen=True, slots=True)
class ConflictCase:
    """What a conflict of instructions is about.

    Attributes:
        x: What the rule wants, or forbids.
        y: What is asked otherwise.
        question: What the user wants to know or have done.
        kept: What an agent does that keeps the rule, and
        broken: one that does what was asked otherwise. A line that begins with `@call` is a tool's call.
        verb: Further words that stand in rules,
        noun: likewise,
        unit: likewise,
        name: likewise.
    """

    x: str
    y: str
    question: str
    kept: _Wordings
    broken: _Wordings
    verb: str = ""
    noun: str = ""
    unit: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class ConflictKind:
    """Conflicts about one kind of rule: what states it, what asks otherwise, what asks nothing else."""

    rules: _Wordings
    asks: _Wordings
    agreeing: _Wordings
    cases: tuple[ConflictCase, ...]


@dataclass(frozen=True, slots=True)
class ConflictWordings:
    """What stands in conflicts of instructions: `conflicts.toml`."""

    held_out: _Wordings
    neutral: _Wordings
    roles: _Wordings
    pages: _Wordings
    kinds: Mapping[str, ConflictKind]


FAULTS = read_data_file(FaultWordings, _FOLDER / "faults.toml")
TALK = read_data_file(TalkWordings, _FOLDER / "talk.toml")
ELABORATION = read_data_file(ElaborationWordings, _FOLDER / "elaboration.toml")
STATEMENTS = read_data_file(StatementWordings, _FOLDER / "statements.toml")
CONFLICTS = read_data_file(ConflictWordings, _FOLDER / "conflicts.toml")
