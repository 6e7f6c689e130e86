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
    quota, _ = tightest_quota(root)
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


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


def tightest_quota(root: Path = Path("/")) -> tuple[float | None, Path]:
    """Return how many processors' time the control groups grant, and the folder of the group that says so.

    The quota of each group above holds as well, so the least of them counts. None is no limit.
    """
    quotas = [(quota, folder) for folder in _group_folders(root) if (quota := _quota_of(folder)) is not None]
    return min(quotas, key=lambda found: found[0], default=(None, root))


def _quota_of(folder: Path) -> float | None:
    """Return the quota that a group has by itself: "max 100000" or "150000 100000"."""
    try:
        quota, period = map(int, _read(folder / "cpu.max").split())
    except ValueError:  # "max", or no such file
        return None
    return quota / period if quota > 0 and period > 0 else None


def _group_folders(root: Path) -> Iterator[Path]:
    """Yield the folders of this process's groups and of those above them.

    In a container the path may be that of the host, and only the topmost folder be there.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        if line.startswith("0::"):  # version 2
            group = PurePosixPath("/", line[3:])
            for above in (group, *group.parents):
                yield root / "sys/fs/cgroup" / above.relative_to("/")


def _read(file: Path) -> str:
    """Return what a small file says, without spaces around it; "" where it cannot be read."""
    try:
        return file.read_text("ascii", "replace").strip()
    except (OSError, ValueError):
        return ""
