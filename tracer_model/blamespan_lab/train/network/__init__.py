"""Training of the network: examples, members, calibration, tuning."""
