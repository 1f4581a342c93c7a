"""Causes of failures: suspects put right to see whether the run ends well, and shares of the failure that add up."""
