"""Labels that people give to runs: the records and the file."""
