"""An agent with a tool (create_agent).

task: What is the weather in Graz?
step: weather message weather_in
step: weather tool_call weather_in
step: weather tool_result 12 degrees
step: weather message It is 21 degrees
"""

from langchain.agents import create_agent
from scripted import scripted

import blamespan

blamespan.instrument(embedded=True)


def weather_in(city: str) -> str:
    """Look up the weather of a city."""
    return f"{city}: rain, 12 degrees."


agent = create_agent(
    scripted(("weather_in", {"city": "Graz"}), "It is 21 degrees in Graz, with rain."), [weather_in], name="weather"
)

result = agent.invoke({"messages": [{"role": "user", "content": "What is the weather in Graz?"}]})
print(blamespan.record_outcome("failed", reason="12 degrees, not 21", result=result))
