"""What reads pieces and attributes their runs: in this process, on all of its cores, or on a Ray cluster.

All engines give the same outcomes in the same order (`blamespan.analysis.outcomes`).
"""
