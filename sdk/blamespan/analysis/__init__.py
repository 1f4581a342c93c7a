"""The offline driver: recorded runs, a tracer's verdicts on them, results for people and programs.

`line` is the whole of it: `sources` gives pieces, `engines` read and attribute them, `results` keep what comes.
`analyze` offers it to programs, `command` to people; `showing`, `summary` and `labelling` are what people do next.
"""
