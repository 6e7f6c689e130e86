"""The same work through several programs; see :mod:`benchmarks.peers.__main__`."""
