"""A pydantic-ai program: a writer that asks a critic by a tool, who counts words; the models are scripted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def desk(verdict: str, *, counts: bool = True) -> None:
    """A writer has a critic look at its line, in a tool, and answers with the verdict; the critic counts with a tool.

    Args:
        verdict: What the critic says, and the writer passes on.
        counts: Whether the counting tool works.
    """
    from pydantic_ai import Agent, ModelRetry
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def scripted(*replies: Any) -> FunctionModel:
        rest = iter(replies)

        def reply(messages: Any, info: Any) -> ModelResponse:
            said = next(rest)
            return ModelResponse([TextPart(said) if isinstance(said, str) else ToolCallPart(*said)])

        return FunctionModel(reply, model_name="scripted")

    asked = ("count_words", {"text": "The sea is wide."}, "call_2")
    again = (verdict,) if counts else (("count_words", {"text": "The sea is wide."}, "call_3"), verdict)
    critic = Agent(scripted(asked, *again), name="critic", instructions="You criticise lines of at most 6 words.")
    writer = Agent(
        scripted(("ask_critic", {"line": "The sea is wide."}, "call_1"), f"The sea is wide. ({verdict})"),
        name="writer",
        instructions="You write lines.",
    )
    tries = iter(range(9))

    @critic.tool_plain(retries=2)
    def count_words(text: str) -> int:
        """Count the words of a text."""
        if not counts and next(tries) == 0:
            raise ModelRetry("the counter is out of order")
        return len(text.split())

    @writer.tool_plain
    async def ask_critic(line: str) -> str:
        """Ask the critic what it thinks of a line."""
        return (await critic.run(f"Criticise: {line}")).output

    writer.run_sync("Write a line about the sea.")


PROGRAMS: dict[str, Callable[[], None]] = {
    "pydantic-ai-sound": lambda: desk("Four words, good."),
    "pydantic-ai-failing": lambda: desk("Nine words, too long.", counts=False),
}
