"""`blamespan demo`: two real programs, each run once clean and once with an agent gone wrong."""
