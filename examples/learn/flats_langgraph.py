"""A LangGraph team that finds flats: coordinator, searcher, screener, surveyor, writer.

Its models answer by what they read.

cd examples/learn && blamespan learn flats_langgraph:make --tasks flats.jsonl --check flats_langgraph:is_right
"""

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

Say = Callable[[str, Sequence[tuple[str, str]]], "str | list[tuple[str, dict[str, str]]]"]


class RuleModel(BaseChatModel):
    """Answers by a rule: of what was said so far, and what its tools gave since."""

    say: Say

    @property
    def _llm_type(self) -> str:
        return "rules"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        """It knows its tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        given: list[tuple[str, str]] = []
        if isinstance(messages[-1], ToolMessage):
            asked = {call["id"]: str(next(iter(call["args"].values()), "")) for message in messages
                     if isinstance(message, AIMessage) for call in message.tool_calls}  # fmt: skip
            latest = [message for message in messages if isinstance(message, AIMessage)][-1]
            own = {call["id"] for call in latest.tool_calls}
            given = [(asked.get(message.tool_call_id, ""), message.text) for message in messages
                     if isinstance(message, ToolMessage) and message.tool_call_id in own]  # fmt: skip
        texts = [message.text for message in messages if not isinstance(message, ToolMessage)]
        answer = self.say("\n".join(texts), given)
        if isinstance(answer, str):
            message = AIMessage(answer)
        else:
            calls = [{"name": name, "args": args, "id": f"{name}_{number}_{len(messages)}"}
                     for number, (name, args) in enumerate(answer)]  # fmt: skip
            message = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


def flats_in(city: str) -> list[tuple[str, int, int, str, float]]:
    """Return the flats of a city: name, rent in euro, rooms, whether pets are allowed, km to the station."""
    draws = Random(city)  # noqa: S311  # the same flats each time
    names = draws.sample([f"F{number}" for number in range(11, 60)], 8)
    return [
        (name, draws.randrange(60, 125) * 10, draws.randrange(1, 5), draws.choice(["yes", "yes", "no"]),
         draws.randrange(3, 60) / 10) for name in names
    ]  # fmt: skip


@tool
def search_flats(city: str) -> str:
    """List the flats of a city: rent, rooms, pets."""
    return "\n".join(
        f"{name}: {rent} euro, {rooms} rooms, pets {pets}" for name, rent, rooms, pets, _ in flats_in(city)
    )


@tool
def distance_of(flat: str) -> str:
    """Measure how far a flat, like 'F12 in Lyon', lies from the station."""
    name, _, city = flat.partition(" in ")
    return next((f"{km} km" for other, *_, km in flats_in(city) if other == name), f"no flat {flat!r} is known")


def _coordinate(text: str, given: Sequence[tuple[str, str]]) -> str:
    who, city = _last(r"for (?:Ms|Mr) (\w+)", text), _last(r"flat in (\w+)", text)
    most, least = _last(r"at most (\d+) euro", text), _last(r"at least (\d+) rooms", text)
    pets = "pets must be allowed" if "a dog" in text else "pets do not matter"
    return (
        f"Brief for {who}: the city is {city}. The rent is at most {most} euro, there are at least {least} rooms, "
        f"and {pets}. The screener must verify every flat against this."
    )


def _search(text: str, given: Sequence[tuple[str, str]]) -> Any:
    city = _last(r"the city is (\w+)", text)
    if not given:
        return [("search_flats", {"city": city})]
    rows = "\n".join(f"- {line}" for line in given[0][1].splitlines())
    return f"I searched the listings. These flats are in {city}:\n{rows}"


def _screen(text: str, given: Sequence[tuple[str, str]]) -> str:
    most, least = float(_last(r"at most (\d+) euro", text) or "inf"), int(_last(r"at least\s+(\d+) rooms", text) or 0)
    needs_pets = "pets must be allowed" in text
    kept, dropped = [], []
    for name, rent, rooms, pets in dict.fromkeys(re.findall(r"- (F\d+): (\d+) euro, (\d+) rooms, pets (\w+)", text)):
        reason = (f"{rent} euro is above {most:g}" if int(rent) > most else f"{rooms} rooms are too few"
                  if int(rooms) < least else "no pets" if needs_pets and pets != "yes" else "")  # fmt: skip
        (dropped if reason else kept).append(f"{name} ({reason})" if reason else f"{name} at {rent} euro")
    return (
        f"I verified each flat against the brief. Kept: {', '.join(kept) or 'none'}. "
        f"Dropped: {', '.join(dropped) or 'none'}. The surveyor measures those that were kept."
    )


def _survey(text: str, given: Sequence[tuple[str, str]]) -> Any:
    kept, city = re.findall(r"(F\d+) at", _last(r"Kept: ([^.]*)\.", text)), _last(r"the city is (\w+)", text)
    if not given and kept:
        return [("distance_of", {"flat": f"{name} in {city}"}) for name in kept]
    measured = ", ".join(f"{flat.partition(' ')[0]} {km}" for flat, km in given if km.endswith("km"))
    return f"I measured the way to the station. Distances: {measured or 'none'}."


def _write(text: str, given: Sequence[tuple[str, str]]) -> str:
    who = _last(r"Brief for (\w+)", text)
    ways = [(float(km), name) for name, km in re.findall(r"(F\d+) ([\d.]+) km", _last(r"Distances: (.*)", text))]
    if not ways:
        return f"Answer: no flat suits {who}."
    km, name = min(ways)
    rent = _last(rf"{name} at (\d+) euro", text) or "unknown"
    return f"Answer: {name} suits {who} best. It is {km} km from the station and costs {rent} euro a month."


def _last(pattern: str, text: str) -> str:
    found: list[str] = re.findall(pattern, text)
    return found[-1] if found else ""


RULES: Mapping[str, Say] = {
    "coordinator": _coordinate,
    "searcher": _search,
    "screener": _screen,
    "surveyor": _survey,
    "writer": _write,
}
TOOLS = {"searcher": search_flats, "surveyor": distance_of}


def make() -> Any:
    """Make the graph anew."""
    builder = StateGraph(MessagesState)
    before = START
    for name, say in RULES.items():
        model = RuleModel(say=say)

        def speak(state: MessagesState, model: RuleModel = model, name: str = name) -> dict[str, Any]:
            message = model.invoke(state["messages"])
            message.name = name
            return {"messages": [message]}

        builder.add_node(name, speak)
        builder.add_edge(before, name) if before != "searcher" and before != "surveyor" else None
        before = name
    for name, following in (("searcher", "screener"), ("surveyor", "writer")):
        builder.add_node(f"{name}_tools", ToolNode([TOOLS[name]]))
        builder.add_edge(f"{name}_tools", name)
        builder.add_conditional_edges(
            name,
            lambda state, tools=f"{name}_tools", following=following: (
                tools if state["messages"][-1].tool_calls else following
            ),
            [f"{name}_tools", following],
        )
    builder.add_edge("writer", END)
    return builder.compile(name="flats")


make.sandbox = True  # type: ignore[attr-defined]  # its tools only read


def is_right(answer: str, task: str) -> bool:
    """Tell whether the flat is the nearest one of those that suit, and its rent is right."""
    most, least = int(_last(r"at most (\d+) euro", task)), int(_last(r"at least (\d+) rooms", task))
    suiting = [
        (km, name, rent)
        for name, rent, rooms, pets, km in flats_in(_last(r"flat in (\w+)", task))
        if rent <= most and rooms >= least and ("a dog" not in task or pets == "yes")
    ]
    who = _last(r"for (?:Ms|Mr) (\w+)", task)
    if not suiting:
        return f"no flat suits {who}" in answer
    km, name, rent = min(suiting)
    return f"{name} suits {who} best. It is {km} km from the station and costs {rent} euro" in answer
