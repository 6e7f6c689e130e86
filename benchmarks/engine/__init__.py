"""The engine's speed, compared with other programs for the same model; see ``benchmarks/README.md``."""
