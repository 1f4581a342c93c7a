"""Where installations made before find the checks; goes with the next installation."""
