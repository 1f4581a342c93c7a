"""One run of a thousand agents and 20,000 steps, in prose of some 40 words a step with numbers and names.

Who speaks builds on what was said before; half of what is said repeats values that others stated, one in fifty differs
by a digit. The same arguments give the same run.
"""

from __future__ import annotations

from random import Random

from blamespan.trace import Agent, MessageActionTrace, Step

_NAMES = (
    "Aalto",
    "Berger",
    "Castellan",
    "Dupont",
    "Eriksen",
    "Farrow",
    "Greaves",
    "Haddad",
    "Ibarra",
    "Jansen",
    "Moreau",
)
_PLACES = (
    "the north depot",
    "the harbour",
    "Mill Road",
    "the old mint",
    "platform four",
    "the west wing",
    "Linden Square",
)
_THINGS = ("parcels", "tickets", "books", "crates", "samples", "bottles", "seats", "letters")
_SENTENCES = (
    "{name} counted {number} {thing} at {place} this morning, and the list of {other} says the same.",
    "According to the ledger of {place} there were {number} {thing}, of which {less} were handed to {name}.",
    "Please check with {name} whether the {number} {thing} from {place} have arrived, as {other} asked for them.",
    "I compared the figures: {number} {thing} came in, {less} went out, so that the rest fits what {name} reported.",
    "The note from {other} is about {place}; it names {number} {thing} and asks {name} to confirm the total.",
    "As agreed, {name} takes over the {thing} at {place}, and {other} reports the count of {number} by tomorrow.",
)
_SENTENCES_PER_STEP = 2
_KNOWN = 200
"""Values stated of late that others may repeat."""


def make_large_run(n_agents: int = 1_000, n_steps: int = 20_000, seed: int = 0) -> MessageActionTrace:
    """Make the run."""
    rng = Random(seed)
    known: list[int] = []
    steps: list[Step] = []
    for index in range(n_steps):
        agent = f"agent_{index % n_agents if index < n_agents else rng.randrange(n_agents)}"
        sentences = [_say(rng, known) for _ in range(_SENTENCES_PER_STEP)]
        inputs = tuple(sorted({rng.randrange(max(0, index - 50), index) for _ in range(2)})) if index else ()
        steps.append(Step(index, f"{index + 1:016x}", agent, content=" ".join(sentences), inputs=inputs))
    task = f"Report how many {_THINGS[0]} are at {_PLACES[0]}, and who counted them. There were 4,210 on Monday."
    agents = tuple(Agent(f"agent_{number}") for number in range(n_agents))
    return MessageActionTrace(f"{seed + 1:032x}", task, tuple(steps), agents, "failed")


def _say(rng: Random, known: list[int]) -> str:
    if known and rng.random() < 0.5:
        number = rng.choice(known)
        if rng.random() < 0.02:
            number += rng.choice((1, 10, 100))
    else:
        number = rng.randrange(100, 90_000)
    known.append(number)
    del known[:-_KNOWN]
    name, other = rng.sample(_NAMES, 2)
    return rng.choice(_SENTENCES).format(
        name=name,
        other=other,
        number=f"{number:,}",
        less=f"{number // rng.choice((2, 3, 5)):,}",
        thing=rng.choice(_THINGS),
        place=rng.choice(_PLACES),
    )
