"""Injection of faults into running programs: boundaries, the hook at them, and labels of what was injected."""
