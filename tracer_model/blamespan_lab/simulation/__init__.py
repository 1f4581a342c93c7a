"""Teams of simulated agents on tasks whose answers can be checked, run inside the real frameworks."""
