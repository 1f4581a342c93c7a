"""`record_outcome()`: which run it means, and how it reaches the run's spans."""
