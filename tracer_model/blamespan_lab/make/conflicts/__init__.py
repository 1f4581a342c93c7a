"""Conflicts of instructions with a known winner: scenes played in AutoGen and LangGraph, to measure checks on."""
