"""How much memory this machine has, and sizes in words."""

from __future__ import annotations

import os
from pathlib import Path

USABLE = 0.75
"""Share of the memory that a model may take; the rest is for the system and other programs."""

_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where Linux says what a container may use (cgroups version 2 and 1)."""


def memory() -> int:
    """Bytes of memory this process could use: the machine's, or less in a container."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(total, *(_limit(file, total) for file in _LIMITS))


def memory_budget() -> int:
    """Bytes that a model can take without pressing everything else out of memory."""
    return int(memory() * USABLE)


def _limit(file: Path, total: int) -> int:
    try:
        return int(file.read_text("ascii"))
    except (OSError, ValueError):  # there is no such limit, or it reads "max"
        return total


def size_words(size: float) -> str:
    """Bytes in words with decimal prefixes, for example ``3.4 GB``."""
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
