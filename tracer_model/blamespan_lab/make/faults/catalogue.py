"""Every kind of fault that can be put into a run, by name, with its mechanisms and what it is called elsewhere.

The kinds stand in `catalogue.toml`, with their sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

from blamespan.errors import ConfigError
from blamespan.intercepting.boundaries import Mechanism
from blamespan.taxonomy import ErrorMode, mode
from blamespan_lab.make.data_files import read_data_file
from blamespan_tracer.modes import MAS_FIRE

BY_MODEL: tuple[Mechanism, ...] = ("response", "prompt")
"""Where a model can write a fault: into what an agent answers, and what it is told."""

FaultSource: TypeAlias = Literal["aegis", "mas-fire", "blamespan"]


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One kind of fault.

    Attributes:
        name: Its name here, unique: `aegis:FM-3.2`, `mas-fire:blind-trust`, `blamespan:X1`.
        source: Who describes it.
        title: Its name there.
        modes: What it is in the taxonomies, its own first; the canonical one is among them.
        writers: For each mechanism by which it can be written, the operators that do it; the first is meant where
            none is asked for.
        times: How often it is written in one run: a cycle is none until it goes round more than once.
    """

    name: str
    source: FaultSource
    title: str
    modes: tuple[ErrorMode, ...]
    writers: Mapping[Mechanism, tuple[str, ...]]
    times: int = 1

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """List the mechanisms by which it can be written."""
        return tuple(self.writers)


def fault_kind(name: str) -> FaultKind:
    """Look up a kind by its name.

    Raises:
        ConfigError: if there is none; the message names the nearest one.
    """
    if name in KINDS:
        return KINDS[name]
    near = get_close_matches(name, KINDS, n=1, cutoff=0.0)[0]
    raise ConfigError(f"expected the name of a kind of fault, got {name!r}. Nearest known: {near!r}")


@dataclass(frozen=True, slots=True)
class _CatalogueEntry:
    """One kind as the file has it; title and modes of a fault of MAS-FIRE are those of `MAS_FIRE`."""

    writers: Mapping[Mechanism, tuple[str, ...]]
    title: str = ""
    modes: tuple[str, ...] = ()
    times: int = 1


@dataclass(frozen=True, slots=True)
class _Catalogue:
    aegis: Mapping[str, _CatalogueEntry]
    mas_fire: Mapping[str, _CatalogueEntry]
    blamespan: Mapping[str, _CatalogueEntry]


def _read_kinds() -> dict[str, FaultKind]:
    catalogue = read_data_file(_Catalogue, Path(__file__).with_name("catalogue.toml"))
    sections: tuple[tuple[FaultSource, Mapping[str, _CatalogueEntry]], ...] = (
        ("aegis", catalogue.aegis),
        ("mas-fire", catalogue.mas_fire),
        ("blamespan", catalogue.blamespan),
    )
    kinds = {}
    for source, entries in sections:
        for code, entry in entries.items():
            title, modes = (entry.title, entry.modes) if source != "mas-fire" else _describe_mas_fire(code)
            name = f"{source}:{code}"
            kinds[name] = FaultKind(name, source, title, tuple(map(mode, modes)), entry.writers, entry.times)
    return kinds


def _describe_mas_fire(code: str) -> tuple[str, tuple[str, ...]]:
    title, modes = MAS_FIRE[code]
    return title, tuple(modes.split())


KINDS: Mapping[str, FaultKind] = MappingProxyType(_read_kinds())
"""Every kind by its name."""
