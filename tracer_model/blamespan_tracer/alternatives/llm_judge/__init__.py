"""LLMs behind an OpenAI-compatible endpoint as tracers: what they are shown and asked, and what their answers count.

Not to be taken for `blamespan.judges`, which shows the results of checks on the page.
"""
