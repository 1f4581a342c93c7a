"""An orchestrator keeps a ledger and tells the others what to do.

task: Which river runs through Vienna, and how long is it?
step: MagenticOneOrchestrator plan We are working to address
step: MagenticOneOrchestrator message Look up the river
step: searcher message The Danube, 2850 km long
step: MagenticOneOrchestrator message The Danube, 2580 km
"""

import asyncio
import json

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import MagenticOneGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient

import blamespan

blamespan.instrument(embedded=True)


def ledger(done, speaker, instruction):
    """What the orchestrator's model answers after each step."""
    answers = {
        "is_request_satisfied": done,
        "is_in_loop": False,
        "is_progress_being_made": True,
        "next_speaker": speaker,
        "instruction_or_question": instruction,
    }
    return json.dumps({key: {"reason": "", "answer": answer} for key, answer in answers.items()})


searcher = AssistantAgent(
    "searcher", ReplayChatCompletionClient(["The Danube, 2850 km long."]), description="Searches the web."
)
orchestrator = ReplayChatCompletionClient(
    [
        "Facts to look up: the river, its length.",
        "Let the searcher look it up.",
        ledger(False, "searcher", "Look up the river and its length."),
        ledger(True, "searcher", ""),
        "The Danube, 2580 km.",
    ]
)
team = MagenticOneGroupChat([searcher], model_client=orchestrator, max_turns=4)

asyncio.run(team.run(task="Which river runs through Vienna, and how long is it?"))
print(blamespan.record_outcome("failed", reason="2850 km, not 2580"))
