"""Signs that something is wrong with a step, a file each; `oddities` gathers them.

A sign is silent on teams that err in nothing (decision 030) and holds however it is said (decision 031).
"""
