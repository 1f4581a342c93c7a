"""What makes and measures a tracer: faults, simulation, corpora, replay, training, measuring, stress, feedback.

Nothing that runs in production imports it.
"""
