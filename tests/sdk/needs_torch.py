"""A plugin whose package is not installed: what importing torch does where the extra is missing."""

raise ModuleNotFoundError("No module named 'torch'", name="torch")
