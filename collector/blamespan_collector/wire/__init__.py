"""What goes through the collector as bytes: protobuf cut by hand, spans as they came, and what waits in the outbox."""
