"""LLMs behind an OpenAI-compatible endpoint as tracers: what they are shown and asked, and what their answers count."""
