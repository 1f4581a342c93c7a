"""Who plays which part in a trace: which spans are steps, which only hold steps, which is the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from blamespan.dialects.reading import SpanReading
from blamespan.dialects.tree import Tree
from blamespan.genai_messages import Message

_PREBUILT_NODES = ("model", "agent")
"""What the nodes of prebuilt agents are called; those agents go by the name of their graph."""


class Cast:
    """Tells each foreign span's part.

    Attributes:
        speakers: Ids of the spans of agents' messages, with the agent's name.
        tools: Ids of the spans of tool calls.
        merged: Ids of the spans that tell of a speaker's message once more, with the speaker's span.
        runs: Ids of the spans of the outermost runs.
        holders: Ids of the spans with a step below them.
        agents: Names of those who speak.
    """

    def __init__(self, tree: Tree, readings: Mapping[str, SpanReading]) -> None:
        self._tree = tree
        self._readings = readings
        nodes = [span_id for span_id in readings if self._is_node(span_id)]
        agents = {span_id: None for span_id, reading in readings.items() if reading.role == "agent"}  # in order
        self.merged = self._merge_speakers(agents)
        holding_nodes = self._above(nodes)
        holding_any = holding_nodes | self._above(agents.keys() - self.merged.keys())
        self.tools = {span_id: None for span_id, reading in readings.items() if reading.role == "tool"}
        holding_tools = self._above(self.tools)
        leaves = [
            span_id
            for span_id in nodes
            if span_id not in holding_any and not (span_id in holding_tools and _only_tools_speak(readings[span_id]))
        ]
        voices = [span_id for span_id in agents if span_id not in self.merged and span_id not in holding_nodes]
        self._owners: dict[str, str] = {}
        self.speakers = {span_id: self._node_name(span_id) for span_id in leaves}
        self.speakers |= {span_id: readings[span_id].name or tree.by_id[span_id].name for span_id in voices}
        self.holders = self._above([*self.speakers, *self.tools, *self._models(readings)])
        self.runs = self._outermost_runs(set(nodes))
        self.speakers |= self._lone_models()
        self.agents = frozenset(self.speakers.values())

    def is_step(self, span_id: str) -> bool:
        """Check whether a span is a step."""
        return span_id in self.speakers or span_id in self.tools

    def _is_node(self, span_id: str) -> bool:
        reading = self._readings[span_id]
        if reading.role != "chain" or reading.place is None or reading.node != reading.name:
            return False
        around = self._tree.nearest(span_id, self._has_place)
        return around is None or self._readings[around].place != reading.place

    def _has_place(self, span_id: str) -> bool:
        return span_id in self._readings and self._readings[span_id].place is not None

    def _merge_speakers(self, agents: Mapping[str, None]) -> dict[str, str]:
        """Find the agents that are told of twice: right below a span of the same agent, no tool between."""
        speakers: dict[str, str] = {}
        for span_id in agents:
            around = self._tree.nearest(span_id, lambda at: self._role(at) in ("agent", "tool"))
            if around is not None and around in agents and self._readings[around].name == self._readings[span_id].name:
                speakers[span_id] = around
        for span_id, around in speakers.items():
            at, visited = around, {span_id}
            while at in speakers and at not in visited:
                visited.add(at)
                at = speakers[at]
            speakers[span_id] = at
        return {span_id: at for span_id, at in speakers.items() if at not in speakers}

    def _role(self, span_id: str) -> str | None:
        return self._readings[span_id].role if span_id in self._readings else None

    def _above(self, span_ids: Iterable[str]) -> set[str]:
        ancestors: set[str] = set()
        for span_id in span_ids:
            for at in self._tree.above(span_id):
                if at in ancestors:
                    break  # what is above it is known
                ancestors.add(at)
        return ancestors

    def _node_name(self, span_id: str) -> str:
        """Name the agent that a node is; two nodes of the same name in two graphs get two names."""
        node = self._readings[span_id].node or ""
        team = self._team(span_id)
        is_prebuilt = node in _PREBUILT_NODES
        if is_prebuilt and (owner := self._readings[span_id].agent or team):
            name = path = owner
        else:
            name, path = node, f"{team}/{node}" if team else node
        if self._owners.setdefault(name, path) != path:
            name = path
        return name

    def _team(self, span_id: str) -> str:
        """Name the node around a node: the subgraph it is in."""
        around = self._tree.nearest(span_id, self._has_place)
        return (self._readings[around].node or "") if around else ""

    def _models(self, readings: Mapping[str, SpanReading]) -> list[str]:
        """List the model calls of a run, for lack of agents in the whole trace."""
        return [] if self.speakers else [span_id for span_id in readings if readings[span_id].role == "model"]

    def _lone_models(self) -> dict[str, str]:
        """Where a run names no agent at all, its model calls are what it said, as one agent: the run itself."""
        if self.speakers:
            return {}
        speakers: dict[str, str] = {}
        for span_id in self._models(self._readings):
            run = self._tree.nearest(span_id, self.runs.__contains__)
            if run is not None:
                speakers[span_id] = self._readings[run].name or self._tree.by_id[run].name
        return speakers

    def _outermost_runs(self, nodes: set[str]) -> set[str]:
        outermost: set[str] = set()
        for span_id, reading in self._readings.items():
            is_run = reading.role in self._run_roles() and span_id not in nodes and span_id in self.holders
            if is_run and not any(self._role(at) in self._run_roles() for at in self._tree.above(span_id)):
                outermost.add(span_id)
        return outermost

    def _run_roles(self) -> tuple[str, ...]:
        """A chain may be a run only where agents or tools are seen in it: a lone prompt and its model are none."""
        return ("run", "chain") if self.speakers or self.tools else ("run",)


def _only_tools_speak(reading: SpanReading) -> bool:
    return all(_is_answer(message) for message in reading.outputs) and not (reading.text and reading.outputs)


def _is_answer(message: Message) -> bool:
    return message.role == "tool" or all(part.get("type") == "tool_call_response" for part in message.parts)
