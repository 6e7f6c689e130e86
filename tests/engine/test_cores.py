"""How many cores are used, on made-up machines: the affinity mask, shared cores, and control groups."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from srbwriter.engine.cores import count_cores

V2 = "0::/"
TOP = "sys/fs/cgroup"


@contextmanager
def machine(files: Mapping[str, str]) -> Iterator[Path]:
    root = Path(tempfile.mkdtemp())
    try:
        for name, content in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
        yield root
    finally:
        shutil.rmtree(root)


def cores(files: Mapping[str, str], processors: int = 8) -> int:
    with machine(files) as root:
        return count_cores(range(processors), root)


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        (V2, {}, 8),
        (V2, {"cpu.max": "max 100000"}, 8),
        (V2, {"cpu.max": "200000 100000"}, 2),
        (V2, {"cpu.max": "150000 100000"}, 2),
        (V2, {"cpu.max": "5000 100000"}, 1),
        (V2, {"cpu.max": "6400000 100000"}, 8),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000"}, 3),
        ("0::/a/b", {"a/b/cpu.max": "100000 50000", "a/cpu.max": "300000 100000"}, 2),
        ("0::/of/the/host", {"cpu.max": "400000 100000"}, 4),
        ("0::/../..", {"cpu.max": "200000 100000"}, 2),
    ],
)
def test_a_quota_bounds_the_cores(group: str, files: Mapping[str, str], expected: int) -> None:
    placed = {f"{TOP}/{name}": content for name, content in files.items()}
    assert cores({"proc/self/cgroup": group, **placed}) == expected


def test_threads_of_one_core_count_once() -> None:
    topology = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    shared = {topology.format(number): f"{number % 4},{number % 4 + 4}\n" for number in range(8)}
    assert cores(shared) == 4
    assert cores({**shared, "proc/self/cgroup": V2, f"{TOP}/cpu.max": "600000 100000"}) == 4
