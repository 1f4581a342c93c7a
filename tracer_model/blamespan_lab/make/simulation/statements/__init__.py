"""Facts and rules of tasks, how prose states them, and how they are read out of prose again."""
