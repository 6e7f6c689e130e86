"""The dialects: one module or package each, which knows no other. See ``leaves.py``."""
