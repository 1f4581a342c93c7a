"""The offline line: recorded runs from files, a tracer's verdicts on them, results for people and programs."""
