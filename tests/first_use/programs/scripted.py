"""A chat model of LangChain that answers what it is given, and takes tools: it stands in for a real one."""

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage


class ScriptedModel(GenericFakeChatModel):
    """Answers one after the other."""

    def bind_tools(self, tools, **kwargs):
        """Take tools, as real models do."""
        return self


def scripted(*answers):
    """A model with these answers: a text, or a tool's name with its arguments."""
    messages = []
    for number, answer in enumerate(answers):
        if isinstance(answer, str):
            messages.append(AIMessage(answer))
        else:
            name, args = answer
            messages.append(AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call_{number}_{name}"}]))
    return ScriptedModel(messages=iter(messages))
