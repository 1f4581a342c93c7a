"""Language models as tracers: any causal model of Hugging Face reads a run and names agent, step and mode."""
