"""Hooks at the boundaries of AutoGen and LangGraph, inside the recording, while somebody listens: faults, a guard."""
