"""Learning a team's own failures: runs are made with faults, what decided them is found by replay, and is learnt."""
