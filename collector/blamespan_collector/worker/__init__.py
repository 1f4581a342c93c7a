"""The second process: reads the journal, assembles, has judged, writes to the outbox, delivers."""
