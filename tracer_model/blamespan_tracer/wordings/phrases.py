"""The words an operator adds, in many wordings: `[a|b|]` is one of its alternatives, inside one another too.

None of them says that something was planted, and agents that do nothing wrong say such things too: what
makes a fault is where it stands.
"""

# ruff: noqa: E501  # wordings are read as sentences

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random
from typing import TypeVar

__all__ = [
    "AGAIN",
    "ANOTHER_ROUND",
    "CONCLUSIONS",
    "DERAILED",
    "ENDS",
    "IGNORED",
    "INVENTED_CONSTRAINTS",
    "LOST_HISTORY",
    "OTHER_ROLE",
    "REDUNDANT_STEPS",
    "UNCHECKED",
    "UNSUPPORTED",
    "VAGUE_AMOUNTS",
    "VAGUE_NAMES",
    "WORDINGS",
    "WRONGLY_CHECKED",
    "choose",
    "current_wordings",
    "pick",
    "say",
    "worded",
]

_CHOICE = re.compile(r"\[([^\[\]]*)\]")


WORDINGS = ("all", "first", "second")
"""What words may be taken from: all wordings and alternatives, or every other one, from the first or the second."""

_wordings: ContextVar[str] = ContextVar("blamespan_wordings", default="all")

_ItemT = TypeVar("_ItemT")


@contextmanager
def worded(wordings: str) -> Iterator[None]:
    """Take words from one of `WORDINGS` only, in this context."""
    token = _wordings.set(wordings)
    try:
        yield
    finally:
        _wordings.reset(token)


def current_wordings() -> str:
    """Tell which of `WORDINGS` words are taken from here."""
    return _wordings.get()


def choose(wordings: Sequence[str], rng: Random) -> str:
    """Take one of *wordings* and one of each of its alternatives."""
    return say(pick(wordings, rng), rng)


def pick(items: Sequence[_ItemT], rng: Random) -> _ItemT:
    """Take one of *items*, of the half that words are taken from here."""
    half = _wordings.get()
    if half != "all" and len(items) > 1:
        items = items[0::2] if half == "first" else items[1::2]
    return rng.choice(items)


def say(text: str, rng: Random) -> str:
    """Take one of each of the alternatives in *text*."""
    while match := _CHOICE.search(text):
        text = text[: match.start()] + pick(match.group(1).split("|"), rng) + text[match.end() :]
    return re.sub(r"\s+(?=[.,;:?!])", "", re.sub(r" {2,}", " ", text)).strip()


INVENTED_CONSTRAINTS = (
    "[Note|Keep in mind|Remember] that [the result|the answer|our figure] must be [rounded to the nearest ten|given in "
    "thousands|kept below 100|a whole number].",
    "[We may only|We should only|Only] use [the first entry|the latest record|a single source|what is listed first].",
    "[As requested|As asked|Per the brief], [items without a label|the smallest entry|weekend entries|duplicates] are "
    "[left out|not counted|excluded].",
    "[There is a limit of|We have at most] [two|three] [steps|look-ups|calls] [for this|here].",
)

AGAIN = (
    "[Let me|I will|I'll] [go through|restate|repeat|take] [this|that|the point] [again|once more|from the top].",
    "[Once more|Again|To repeat]:",
    "[As I said|As before|Like before], [here it is|this is how it stands|the following holds].",
    "[Doing|Running|Working] this [step|part] [again|a second time].",
)

REDUNDANT_STEPS = (
    "[First|Before that], I [list|write down|sort] [all|the] [inputs|items|entries] [by name|alphabetically|by length].",
    "I [also|then] [reformat|copy out|retype] the [question|request|table] [in my own words|as a list|in bullet points].",
    "[For completeness|To be thorough], I [look up|go over] the [definition|meaning] of [each|every] [term|word] used.",
    "[Next|After that], I [count|number] the [words|lines] of the [request|message].",
    "I [draw up|prepare] a [glossary|summary table|list of synonyms] [that may help|in case it helps|for later].",
    "[Then|Finally], I [compare|check] the [date|format|spelling] of [everything|each entry] [once more|again].",
)

LOST_HISTORY = (
    "[Sorry|Apologies|Hm], [could you|can you|please] [remind me|tell me again|repeat] [what|which] "
    "[the task is|we are working on|the question was]?",
    "[Hello|Hi]! [What|Which problem] [can I help|should I help|shall we start] [with|with today]?",
    "[I do not|I don't] [have|see] [any|the] [earlier|previous] [messages|figures|results], so [I start|let us begin|I "
    "will begin] [from scratch|anew|again from the start].",
    "[Let us|Let's] [start|begin] [by|with] [gathering|collecting] [the requirements|what is known|the inputs]: [what|"
    "which] [data|facts] do we have?",
)

VAGUE_AMOUNTS = ("[some|several|a few]", "[the usual|the expected|a typical] [amount|number]", "[about that|so] many")
VAGUE_NAMES = ("[that one|the other one]", "[someone|something] [there|else|]", "[it|the one mentioned]")

UNSUPPORTED = (
    "[This is|It is] [well known|common knowledge|documented] [and|, so it] needs no [source|reference].",
    "[I recall|I remember|From memory,|As far as I know,] [this|that figure|the value] [is standard|is the usual one|has "
    "always been so].",
    "[Reports|Published figures|Official records|Earlier studies] [confirm|show|state] [this|that|exactly this].",
    "[I take it|It follows] from [general|common] [experience|practice].",
)

DERAILED = (
    "[What|A question that] [is|seems] more [interesting|useful|relevant] [here|to me]: [how|why] [did this come up|is it "
    "done this way|others solve it]. [Let me|I will] [look into|write up|explore] [that|this] [first|instead].",
    "[Before|Rather than] [the figures|going on], [we should|let us] [discuss|improve|plan] [the format|the layout|the "
    "title|the wording] of the [report|answer]. [I suggest|I propose] [three options|a new outline|a short style guide].",
    "[On another note|By the way|Thinking of it], [we could|one could] [also|] [build|design|sketch] [a dashboard|a tool|a "
    "general method] for [cases like this|this kind of thing]; [here is|this is] [how I would start|a first draft].",
)

OTHER_ROLE = (
    "[I will|Let me] [take over from|do the part of|act as] {other} [here|for now|this time]: [the plan is changed|I decide "
    "how we go on|I have done that part], [no need to wait|so we can skip that|and that settles it].",
    "[Speaking for|In place of|On behalf of] {other}, [I approve|I decide|I hand out the next tasks]. [My own part|The part "
    "I was given] [can wait|is not needed].",
)

IGNORED = (
    "[I work|I go on] [with|from] my own [figures|estimate|notes].",
    "[I have not used|I leave aside|I set aside] [the others' results|what was reported|the earlier message].",
    "[Independently of|Regardless of|Whatever was said in] [the earlier messages|what came before|the report]:",
    "[Here is|This is] [how I see it|my own reading|my result]:",
)

CONCLUSIONS = (
    "[So|Hence|Thus|Therefore], [the answer is|it comes to|we get|the result is] {value}.",
    "[In short|To conclude|All in all]: {value}.",
    "[That gives|This leads to|Which makes] {value} [in the end|overall|in total|].",
)

ENDS = (
    "[That|This] [is all|is enough|should do|will do]. [We are|I consider this] done. [APPROVED|TERMINATE|DONE]",
    "[Good enough|We have what we need|No further steps needed]. [I close this|Closing here|Finishing here]. "
    "[APPROVED|TERMINATE|DONE]",
    "[The task is|This is] [complete|finished|settled] [now|as it stands|from my side]. [APPROVED|TERMINATE|DONE]",
)

ANOTHER_ROUND = (
    "[Let us|Let's|We should] [go over|discuss|take] [this|it|everything] [again|once more|another time].",
    "[I would|I'd] [like|prefer] [another|one more] [round|pass|iteration] [on this|before we stop|].",
    "[Please|Could you] [continue|go on|carry on] [with|and give me] [the next version|further thoughts|more detail].",
)

UNCHECKED = (
    "[Looks|Reads|Seems] [good|fine|right|in order] [to me|]. [No need to|I did not] [check|recompute|look it up] [again|it|].",
    "[I trust|I rely on|I take] the [result|report|figures] [as given|as they are|as reported].",
    "[It answers|This covers] [the question|all parts|what was asked]. [Accepted|Agreed|Fine].",
    "[All good|Nothing to add|No objections]. [Let us move on|We can go ahead|Going ahead].",
)

WRONGLY_CHECKED = (
    "I [checked|recomputed|verified|went over] [it|this|the figure] [step by step|myself|independently] and [also get|"
    "arrive at|confirm] {value}.",
    "[Check|Verification|Recount] [done|complete]: {value} [is right|holds|agrees with the source].",
    "[Going through|Working through] the [inputs|sources|steps] [again|once more] [gives|leads to] {value}, [as reported|so "
    "it stands|which matches].",
)
