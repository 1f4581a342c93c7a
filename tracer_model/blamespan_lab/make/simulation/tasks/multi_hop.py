"""Multi-hop questions over a corpus of small articles: product, maker, founder, birthplace, river."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

from blamespan_lab.make.data_files import read_data_file
from blamespan_lab.make.simulation.statements.facts import FactValue, Lookup, TaskFact
from blamespan_lab.make.simulation.statements.writing import end_sentence, write_fact
from blamespan_lab.make.simulation.tasks.task import Builder, Task
from blamespan_lab.make.simulation.tasks.tools import search_tool

__all__ = ["multi_hop"]


@dataclass(frozen=True, slots=True)
class _WorldWords:
    opening: str
    requests: tuple[str, ...]
    products: tuple[str, ...]
    makers: tuple[str, ...]
    first_names: tuple[str, ...]
    last_names: tuple[str, ...]
    towns: tuple[str, ...]
    rivers: tuple[str, ...]
    fillers: tuple[str, ...]


_WORDS = read_data_file(_WorldWords, Path(__file__).with_suffix(".toml"))


@dataclass(frozen=True, slots=True)
class _ProductHistory:
    """A product and what leads on from it."""

    product: str
    maker: str
    founder: str
    town: str
    river: str
    born: float
    founded: float


def multi_hop(rng: Random, size: int) -> Task:
    """Make a multi-hop question: a chain of look-ups, or two chains that are compared, by *size*."""
    lines = _world(rng)
    build = Builder("multi_hop", rng)
    last = _chain(build, lines[0], min(4, max(3, size)), "") if size <= 4 else _two_chains(build, lines[:2], size)
    request = rng.choice(_WORDS.requests).format(build.facts[last].phrase)
    return build.task(last, _WORDS.opening, request, tools=(search_tool(_corpus(build.rng, lines)),))


def _chain(build: Builder, line: _ProductHistory, hops: int, mark: str) -> str:
    """Add the first *hops* links of a line; gives the key of the last."""
    product = line.product
    maker, founder, town, river = (f"{name}{mark}" for name in ("maker", "founder", "town", "river"))
    _find(build, maker, f"maker of the {product}", "", f"maker {product}", line.maker)
    _find(
        build,
        founder,
        f"founder of the maker of the {product}",
        f"founder of {{{maker}}}",
        f"founder {{{maker}}}",
        line.founder,
    )
    if hops < 3:
        return founder
    phrase = f"birthplace of the person who founded the maker of the {product}"
    _find(build, town, phrase, f"birthplace of {{{founder}}}", f"birthplace {{{founder}}}", line.town)
    if hops < 4:
        return town
    phrase = f"river through the birthplace of the person who founded the maker of the {product}"
    return _find(build, river, phrase, f"river through {{{town}}}", f"river {{{town}}}", line.river)


def _two_chains(build: Builder, lines: list[_ProductHistory], size: int) -> str:
    """Compare two founders or two companies by year."""
    years = []
    build.measure = "year"
    by_birth = build.rng.random() < 0.6
    for number, line in enumerate(lines):
        of = f"maker of the {line.product}"
        if by_birth:
            _chain(build, line, 2, str(number))
            phrase, name = f"birth year of the person who founded the {of}", f"birth year of {{founder{number}}}"
            query, value = f"birth year {{founder{number}}}", line.born
        else:
            _find(build, f"maker{number}", of, "", f"maker {line.product}", line.maker)
            phrase, name = f"founding year of the {of}", f"founding year of {{maker{number}}}"
            query, value = f"founding year {{maker{number}}}", line.founded
        lookup = Lookup("search_documents", {"query": query})
        years.append(build.add_lookup(f"year{number}", phrase, value, lookup, by_name=name, label=line.product))
    if size >= 7 and build.rng.random() < 0.5:
        later = build.add_derived("later", "later of the two years", "larger", years)
        earlier = build.add_derived("earlier", "earlier of the two years", "smaller", years)
        return build.add_derived("gap", "number of years between the two", "difference", (later, earlier))
    return build.add_derived(
        "named", "product to be named", build.rng.choice(("lowest", "highest")), years, kind="name"
    )


def _find(build: Builder, key: str, phrase: str, by_name: str, query: str, value: FactValue) -> str:
    lookup = Lookup("search_documents", {"query": query})
    return build.add_lookup(key, phrase, value, lookup, kind="name", by_name=by_name)


def _world(rng: Random) -> list[_ProductHistory]:
    people = [
        f"{first} {last}"
        for first, last in zip(rng.sample(_WORDS.first_names, 8), rng.sample(_WORDS.last_names, 8), strict=True)
    ]
    columns = (_WORDS.products, _WORDS.makers, people, _WORDS.towns, _WORDS.rivers)
    shuffled = [rng.sample(list(column), k=8) for column in columns]
    years = rng.sample(range(1830, 1960), k=8)
    return [
        _ProductHistory(product, maker, founder, town, river, float(born), float(born + rng.randint(22, 50)))
        for product, maker, founder, town, river, born in zip(*shuffled, years, strict=True)
    ]


def _corpus(rng: Random, lines: list[_ProductHistory]) -> dict[str, str]:
    documents: dict[str, str] = {}
    for line in lines:
        documents[line.product] = _article(rng, (f"maker of the {line.product}", line.maker))
        documents[line.maker] = _article(
            rng, (f"founder of {line.maker}", line.founder), (f"founding year of {line.maker}", line.founded)
        )
        documents[line.founder] = _article(
            rng, (f"birthplace of {line.founder}", line.town), (f"birth year of {line.founder}", line.born)
        )
        documents[line.town] = _article(rng, (f"river through {line.town}", line.river))
    return documents


def _article(rng: Random, *stated: tuple[str, FactValue]) -> str:
    """Write an article: what it states, in any order, and a sentence beside the point."""
    texts = [
        write_fact(
            TaskFact("it", phrase, "name" if isinstance(value, str) else "amount"), value, rng, is_impersonal=True
        )
        for phrase, value in stated
    ]
    texts.append(rng.choice(_WORDS.fillers))
    rng.shuffle(texts)
    return " ".join(end_sentence(text) for text in texts)
