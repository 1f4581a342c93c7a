"""Back ends that are asked for traces and take verdicts back: one module each."""
