"""The guard: what agents may do, decided while the run goes on."""
