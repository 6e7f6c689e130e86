"""How many processor cores this process may use: the affinity mask, and the quota of its control groups.

Knows the files of Linux, and the number of processors elsewhere; must never know llama.cpp.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath


def count_cores(processors: Collection[int] | None = None, root: Path = Path("/")) -> int:
    """Return the number of physical cores to compute on, at least 1.

    Args:
        processors: numbers of the processors that may be used; those of the affinity mask by default.
        root: folder that ``proc`` and ``sys`` lie in.
    """
    if processors is None:
        processors = affinity()
    if processors is None:
        return os.cpu_count() or 1
    cores = len({_core_of(processor, root) for processor in processors})
    return max(1, min(cores, math.ceil(min(_quotas(root), default=cores))))


def affinity() -> Collection[int] | None:
    """The processors that this process may run on; None on systems that do not tell."""
    try:
        return os.sched_getaffinity(0)
    except (AttributeError, OSError):
        return None


def _core_of(processor: int, root: Path) -> str:
    """Return a name for the core that a processor is a thread of."""
    siblings = root / f"sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list"
    return _read(siblings) or str(processor)


def _quotas(root: Path) -> Iterator[float]:
    """Yield how many processors' time the groups of this process, and those above them, grant.

    In a container the path may be that of the host, and only the topmost folder be there.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        if line.startswith("0::"):  # version 2
            group = PurePosixPath("/", line[3:])
            for above in (group, *group.parents):
                limit = _read(root / "sys/fs/cgroup" / above.relative_to("/") / "cpu.max").split()
                if len(limit) == 2 and limit[0] != "max":  # "max 100000" or "150000 100000"
                    yield int(limit[0]) / int(limit[1])


def _read(file: Path) -> str:
    """Return what a small file says, without spaces around it; "" where it cannot be read."""
    try:
        return file.read_text("ascii", "replace").strip()
    except (OSError, ValueError):
        return ""
