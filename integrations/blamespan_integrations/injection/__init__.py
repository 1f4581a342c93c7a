"""Where faults are written into runs of AutoGen and LangGraph: hooks inside the recording, while an injection is on."""
