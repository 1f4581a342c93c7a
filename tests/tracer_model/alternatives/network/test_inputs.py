"""What the network reads: columns by their names, and words by sentence, whichever way texts are taken apart."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.network.inputs import SentenceTokens, read_inputs, read_sentence_tokens
from tests.tracer_model.alternatives.network.networks import FEATURES, VOCABULARY, random_team

SENTENCES = ("The total is 12.", "So we check again.", "There is an error, done.")


def drawn(text: str) -> list[list[int]]:
    """The rows of each sentence of one text."""
    tokens = read_sentence_tokens("", [text], VOCABULARY)
    return (
        [rows.tolist() for rows in np.split(tokens.rows, tokens.first_token[1:-1])]
        if len(tokens.first_token) > 1
        else []
    )


def check_same(one: SentenceTokens, other: SentenceTokens) -> None:
    for part in ("rows", "first_token", "first_sentence"):
        assert np.array_equal(getattr(one, part), getattr(other, part)), part


def test_words_are_kept_by_sentence() -> None:
    """Each sentence has its own distinct words, whatever stands in the others."""
    assert drawn(" ".join(SENTENCES)) == [rows for sentence in SENTENCES for rows in drawn(sentence)]
    assert drawn("Again and again and again.") == drawn("Again and.")


def test_the_tasks_words_say_nothing() -> None:
    """What the task says is of the task, however a step repeats it."""
    tokens = read_sentence_tokens("Count the total error", ["The total error is here.", ""], VOCABULARY)

    assert np.array_equal(tokens.rows, read_sentence_tokens("", ["is here."], VOCABULARY).rows)
    assert len(tokens) == 2


@given(
    st.lists(st.lists(st.sampled_from([*SENTENCES, ""]), max_size=4).map(" ".join), min_size=1, max_size=5), st.data()
)
def test_parts_are_what_they_would_be_alone(texts: list[str], data: st.DataObject) -> None:
    """Taking texts out, in any order, gives what reading just these gives; so does putting them together."""
    order = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=6))
    tokens = read_sentence_tokens("", texts, VOCABULARY)
    chosen = [texts[place] for place in order]

    check_same(tokens.select(np.array(order)), read_sentence_tokens("", chosen, VOCABULARY))
    check_same(
        SentenceTokens.concatenate([read_sentence_tokens("", [text], VOCABULARY) for text in chosen]),
        tokens.select(np.array(order)),
    )


def test_columns_are_found_by_their_names() -> None:
    """A network that learnt from some features, in an order of its own, reads these in this order."""
    lexicon, runs = LexicalTracer.bundled().lexicon, [random_team(seed) for seed in range(3)]
    names = tuple(np.random.default_rng(0).permutation(FEATURES)[:100].tolist())
    whole = read_inputs(runs, lexicon, VOCABULARY, FEATURES)
    some = read_inputs(runs, lexicon, VOCABULARY, names)

    for every, chosen in zip(whole, some, strict=True):
        columns = [FEATURES.index(name) for name in names]
        np.testing.assert_allclose(chosen.features, every.features[:, columns], rtol=1e-5, atol=1e-6)
