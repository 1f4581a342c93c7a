"""How other instrumentations write down a run: one module for each, under the entry-point group `blamespan.dialects`.

Each reads single spans; what they mean together is `blamespan.dialects`' business. The keys and shapes are those of
the released packages that `tests/integrations/dialects` holds recordings of.
"""
