"""Error modes are looked up by name and map to canonical ones, or say that they do not."""

from __future__ import annotations

import pytest

from blamespan.errors import ConfigError
from blamespan.taxonomy import AEGIS, EXTENSION, MAST, canonical, mode


def test_every_mode_is_found_by_its_name() -> None:
    """`taxonomy:code` is unambiguous."""
    every = [*MAST.values(), *AEGIS.values(), *EXTENSION.values()]

    assert [mode(str(m)) for m in every] == every


def test_unknown_mode_names_the_nearest() -> None:
    """A typing error is answered with what was probably meant."""
    with pytest.raises(ConfigError, match=r"got 'mast:FM-1\.11'\. Nearest known: 'mast:FM-1\.1'"):
        mode("mast:FM-1.11")


def test_canonical_modes_map_to_themselves() -> None:
    """MAST and the extension are canonical."""
    for of in (*MAST.values(), *EXTENSION.values()):
        assert canonical(of) == (of, "same")


def test_aegis_repetition_is_not_masts_conversation_reset() -> None:
    """The code that two taxonomies share is mapped by meaning."""
    assert canonical(AEGIS["FM-2.1"]) == (MAST["FM-1.3"], "near")


def test_what_aegis_cannot_say_is_known() -> None:
    """No AEGIS mode reaches MAST's conversation reset or an extension code."""
    reached = {canonical(of)[0] for of in AEGIS.values()}

    assert {*MAST.values(), *EXTENSION.values()} - reached == {MAST["FM-2.1"], *EXTENSION.values()}
