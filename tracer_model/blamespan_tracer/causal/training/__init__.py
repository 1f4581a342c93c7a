"""Training of language models on labelled runs: SFT, GRPO and contrastive learning, by TRL, PEFT and transformers."""
