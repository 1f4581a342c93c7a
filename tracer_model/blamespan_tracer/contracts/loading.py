"""Which contracts are in use: the bundled ones, installed packages', and those of the user's files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from blamespan.errors import ConfigError
from blamespan.plugins import load_entry, plugins
from blamespan_tracer.contracts.contract import Contract
from blamespan_tracer.contracts.declared import declared_contracts

__all__ = ["CONTRACTS_VARIABLE", "contracts_in_use", "digest_of_files", "installed_contracts"]

CONTRACTS_VARIABLE = "BLAMESPAN_CONTRACTS"
"""Environment variable: TOML files with further contracts, separated like `PATH`."""

_GROUP = "blamespan.contracts"


def contracts_in_use(files: Sequence[Path] | None = None) -> tuple[Contract, ...]:
    """Return all contracts: bundled and installed ones, then those of *files*; a later one replaces one of its name.

    Args:
        files: TOML files; where None, those that `BLAMESPAN_CONTRACTS` names.

    Raises:
        ConfigError: if a file or an installed package offers what is no contract.
        MissingExtra: if an installed package lacks one of ours.
    """
    if files is None:
        files = _files_in_use()
    by_name = {contract.name: contract for contract in installed_contracts()}
    for path in files:
        by_name.update((contract.name, contract) for contract in declared_contracts(path))
    return tuple(by_name.values())


def digest_of_files() -> str:
    """Return the first 12 hex digits of the SHA-256 of the files that `BLAMESPAN_CONTRACTS` names; empty for none."""
    digest = hashlib.sha256()
    files = _files_in_use()
    for path in files:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12] if files else ""


def installed_contracts() -> list[Contract]:
    """Return what the entry points of the group `blamespan.contracts` offer: a contract, or several."""
    offered = plugins(_GROUP)
    first = sorted(offered, key=lambda name: (name != "bundled", name))
    return [contract for name in first for contract in _offered(name, load_entry(offered[name]))]


def _files_in_use() -> list[Path]:
    return [Path(name) for name in os.environ.get(CONTRACTS_VARIABLE, "").split(os.pathsep) if name]


def _offered(name: str, found: object) -> list[Contract]:
    contracts = [found] if isinstance(found, Contract) else list(found) if isinstance(found, Iterable) else []
    if not contracts or not all(isinstance(contract, Contract) for contract in contracts):
        raise ConfigError(
            f"{_GROUP}: expected a Contract or several of entry point {name!r}, got {str(found)[:80]!r}. "
            "docs/contracts.md shows how to offer one"
        )
    return contracts
