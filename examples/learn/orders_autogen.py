"""An AutoGen team that prices orders: planner, buyer, cashier, reviewer. Its models answer by what they read.

    cd examples/learn && blamespan learn orders_autogen:make --tasks orders.jsonl --check orders_autogen:is_right

A model that is rules stands in for yours: whatever is changed in what an agent says has its consequences.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, ModelFamily, ModelInfo, RequestUsage

PRICES = {"lamp": 12.5, "chair": 40.0, "mat": 8.0, "desk": 145.0, "stool": 64.5, "clock": 21.0, "vase": 17.5}
Say = Callable[[str, Sequence[tuple[str, str]]], "str | list[FunctionCall]"]
_INFO = ModelInfo(
    vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
)


class RuleModel(ChatCompletionClient):
    """Answers by a rule: of what was said so far, and what its tools gave since."""

    def __init__(self, say: Say) -> None:
        self._say = say

    async def create(self, messages: Sequence[Any], **_: Any) -> CreateResult:  # type: ignore[override]
        """Answer what the conversation says."""
        texts = [message.content for message in messages if isinstance(message.content, str)]
        given = [result for message in messages if message.type == "FunctionExecutionResultMessage"
                 for result in message.content]  # fmt: skip
        names = {call.id: json.loads(call.arguments).get("item", "") for message in messages
                 if message.type == "AssistantMessage" and not isinstance(message.content, str)
                 for call in message.content}  # fmt: skip
        answer = self._say("\n".join(texts), [(names.get(result.call_id, ""), result.content) for result in given])
        usage = RequestUsage(sum(map(len, texts)) // 4, len(str(answer)) // 4)
        reason = "stop" if isinstance(answer, str) else "function_calls"
        return CreateResult(finish_reason=reason, content=answer, usage=usage, cached=False)

    async def create_stream(self, messages: Sequence[Any], **options: Any) -> Any:  # type: ignore[override]
        """Yield the whole answer at once."""
        yield await self.create(messages, **options)

    async def close(self) -> None:
        """Nothing is open."""

    def actual_usage(self) -> RequestUsage:
        """Nothing is counted here."""
        return RequestUsage(0, 0)

    total_usage = actual_usage

    def count_tokens(self, messages: Sequence[Any], **_: Any) -> int:  # type: ignore[override]
        """Nothing is counted here."""
        return 0

    def remaining_tokens(self, messages: Sequence[Any], **_: Any) -> int:  # type: ignore[override]
        """There is always room."""
        return 100_000

    @property
    def capabilities(self) -> Any:
        """As `model_info`."""
        return _INFO

    @property
    def model_info(self) -> ModelInfo:
        """It calls functions."""
        return _INFO


def price_of(item: str) -> str:
    """Look up what one piece costs, in euro."""
    return f"{PRICES[item]:.2f}" if item in PRICES else f"{item!r} is not in the catalogue"


def _plan(text: str, given: Sequence[tuple[str, str]]) -> str:
    customer = _last(r"Order for (\w+ \w+):", text) or "the customer"
    items = ", ".join(f"{count} {name}" for count, name in re.findall(r"(\d+) (\w+?)s?(?=,| and|\.)", _order(text)))
    discount = "10 %" if "is a member" in text else "none"
    return (
        f"Plan for {customer}. Items: {items}. Discount: {discount}. Delivery: 15.00 euro, free above 300.00 euro. "
        "The buyer looks up the prices. The cashier works out what is to be paid. "
        "The reviewer must check the sum before the answer is given."
    )


def _order(text: str) -> str:
    return (_last(r"Order for \w+ \w+: ([^.]*\.)", text) or "").replace(" and ", ", ").replace(".", ",").rstrip()


def _buy(text: str, given: Sequence[tuple[str, str]]) -> "str | list[FunctionCall]":
    items = [name for _, name in _items(text)]
    if not given and items:
        return [FunctionCall(f"call_{item}", json.dumps({"item": item}), "price_of") for item in items]
    prices = [f"{item} {price} euro" for item, price in given if re.fullmatch(r"[\d.]+", price)]
    return f"I looked the prices up in the catalogue. Prices: {', '.join(prices)}. That is all that was asked for."


def _cash(text: str, given: Sequence[tuple[str, str]]) -> str:
    prices = {name: float(price) for name, price in re.findall(r"(\w+) ([\d.]+) euro", _last(r"Prices: (.*)", text))}
    parts = [(int(count), prices[name]) for count, name in _items(text) if name in prices]
    if not parts:
        return "No prices have come, so there is nothing to add up."
    goods = sum(count * price for count, price in parts)
    discount = goods * float(_last(r"Discount: (\d+) %", text) or 0) / 100
    free = float(_last(r"free above ([\d.]+) euro", text) or "inf")
    delivery = 0.0 if goods > free else float(_last(r"Delivery: ([\d.]+) euro", text) or 0)
    terms = " + ".join(f"{count} x {price:.2f}" for count, price in parts)
    return (
        f"Goods: {terms} = {goods:.2f} euro. Discount: {discount:.2f} euro. Delivery: {delivery:.2f} euro. "
        f"To pay: {goods - discount + delivery:.2f} euro."
    )


def _review(text: str, given: Sequence[tuple[str, str]]) -> str:
    customer = _last(r"Plan for (\w+ \w+)\.", text) or _last(r"Order for (\w+ \w+):", text)
    amounts = [_last(rf"{name}[^=\n]*?([\d.]+) euro", text)
               for name in (r"Goods:[^=\n]*=", "Discount:", "Delivery:", "To pay:")]  # fmt: skip
    goods, discount, delivery, total = (float(amount or "nan") for amount in amounts)
    if total != total:
        return f"Answer: what {customer} pays cannot be told, as no total was given."
    if "check the sum" not in text:
        return f"Answer: {customer} pays {total:.2f} euro."
    right = goods - discount + delivery
    found = "it is right" if abs(right - total) < 0.005 else f"it is not {total:.2f}"
    return (
        f"I checked the sum: {goods:.2f} - {discount:.2f} + {delivery:.2f} = {right:.2f}, so {found}. "
        f"Answer: {customer} pays {right:.2f} euro."
    )


def _items(text: str) -> list[tuple[str, str]]:
    return re.findall(r"(\d+) ([a-z]+)", _last(r"Items: ([^.]*)\.", text))


def _last(pattern: str, text: str) -> str:
    found: list[str] = re.findall(pattern, text)
    return found[-1] if found else ""


RULES: Mapping[str, Say] = {"planner": _plan, "buyer": _buy, "cashier": _cash, "reviewer": _review}


def make() -> RoundRobinGroupChat:
    """Make the team anew."""
    agents = [
        AssistantAgent(
            name,
            RuleModel(say),
            tools=[price_of] if name == "buyer" else None,
            reflect_on_tool_use=True if name == "buyer" else None,
        )
        for name, say in RULES.items()
    ]
    ends = TextMentionTermination("Answer:") | MaxMessageTermination(24)
    return RoundRobinGroupChat(list(agents), termination_condition=ends)


make.sandbox = True  # type: ignore[attr-defined]  # its tool only reads


def is_right(answer: str, task: str) -> bool:
    """Tell whether the amount is the one that the order comes to."""
    items = re.findall(r"(\d+) (\w+?)s?(?=,)", _order(task))
    goods = sum(int(count) * PRICES[name] for count, name in items)
    total = goods * (0.9 if "is a member" in task else 1.0) + (0 if goods > 300 else 15)
    customer = _last(r"Order for (\w+ \w+):", task)
    return f"{customer} pays {total:.2f} euro" in answer.rpartition("Answer:")[2]
