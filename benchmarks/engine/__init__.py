"""How fast the engine is beside other ways to run the same model; see ``benchmarks/README.md``."""
