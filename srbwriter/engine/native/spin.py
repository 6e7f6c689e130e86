"""How long OpenMP's threads spin where they wait for each other. Knows environment variables only.

A step of llama.cpp has some hundred barriers, most of them over in microseconds. Threads that go to sleep at
each make it two to five times as long; threads that spin for long take the cores of everything else, and of
each other where a neighbour holds a core. So they spin for a while, and sleep then.
"""

from __future__ import annotations

from collections.abc import Mapping

_SPIN = {
    "GOMP_SPINCOUNT": "10000",  # rounds, some tenths of a millisecond; the runtime of GCC
    "KMP_BLOCKTIME": "1",  # milliseconds, the shortest that all versions take; the runtime of clang
}
_CHOICES = ("OMP_WAIT_POLICY", *_SPIN)


def spin_limits(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Variables to set; none if whoever started the program chose a way to wait."""
    return {} if any(name in environment for name in _CHOICES) else _SPIN
