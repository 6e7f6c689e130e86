"""Seeds that follow from one another. Plain arithmetic."""

from __future__ import annotations

_MASK64 = 0xFFFFFFFFFFFFFFFF


def derive_seed(seed: int, k: int) -> int:
    """Return the k-th seed that follows from ``seed``; never 0xFFFFFFFF, which is llama.cpp's "random".

    SplitMix64 (Steele, Lea and Flood, 2014), so that neighbouring seeds give unrelated streams.
    """
    z = (seed + (k + 1) * 0x9E3779B97F4A7C15) & _MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
    return (z ^ (z >> 31)) & 0xFFFFFFFE
