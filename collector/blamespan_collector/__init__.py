"""Receives spans, assembles them into traces, annotates and forwards them: as a service or in process."""
