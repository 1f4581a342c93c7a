"""`blamespan annotate`: a person says whether a verdict is right, and what is, run by run."""
