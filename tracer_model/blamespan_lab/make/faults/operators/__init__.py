"""What writes faults without a model: operators on texts, prompts, calls, results, histories and messages."""
