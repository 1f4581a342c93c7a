"""Policies as the model clients of AutoGen and LangChain; each imports its framework."""
