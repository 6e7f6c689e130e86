"""Disks that are slow, full or closed: a small file system of its own, or a library that is loaded first."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest

SIZE = 2 * 2**20  # bytes of a small disk


class MoodyDisk:
    """A folder whose disk has moods, for programs that run with :attr:`environment`.

    ``trouble`` is the mood that stands for a full disk: ``full``, ``failing`` (I/O errors) or ``readonly``. A
    sync of a slow disk takes ``seconds``.
    """

    def __init__(self, folder: Path, library: Path, trouble: str = "full", seconds: int = 1) -> None:
        self.folder, self.seconds = folder, seconds
        self._trouble = trouble
        self._moods = folder.parent / f"{folder.name}.moods"
        folder.mkdir(parents=True)
        self._moods.mkdir()

        self.environment = {
            "LD_PRELOAD": str(library),
            "DISK_FOLDER": str(folder.resolve()),
            "DISK_MOODS": str(self._moods),
            "DISK_SECONDS": str(seconds),
        }

    def slow_down(self) -> None:
        """Let each sync take its time from now on."""
        (self._moods / "slow").touch()

    @property
    def delayed(self) -> int:
        """How many saves have been delayed since the disk became slow."""
        return len((self._moods / "slow").read_text().splitlines())

    def fill(self) -> None:
        (self._moods / self._trouble).touch()

    def free(self) -> None:
        (self._moods / self._trouble).unlink()

    def shift_clock(self, seconds: int) -> None:
        """Let the program's time of day be ``seconds`` later than the true one."""
        new = self._moods / "clock.new"
        new.write_text(str(seconds))
        new.rename(self._moods / "clock")


class SmallDisk:
    """A file system of two megabytes, mounted at a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment: dict[str, str] = {}
        folder.mkdir(parents=True)
        options = ["-t", "tmpfs", "-o", f"size={SIZE}"]
        subprocess.run(["mount", *options, "srbwriter-test", str(folder)], check=True, capture_output=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=True)

    def fill(self) -> None:
        """Write until there is no room for one more byte."""
        with (self.folder / "ballast").open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        (self.folder / "ballast").unlink()


class Disk(Protocol):
    """A disk that can be full for a while."""

    folder: Path
    environment: dict[str, str]

    def fill(self) -> None: ...

    def free(self) -> None: ...


def why_no_moods() -> str:
    """Why there can be no moody disk here; empty if there can."""
    if not sys.platform.startswith("linux"):
        return "a library is loaded before others by LD_PRELOAD on Linux only"
    return "" if shutil.which("cc") else "there is no C compiler (cc)"


def build(folder: Path) -> Path:
    """The library of moods, compiled in ``folder``; skips the test where that cannot be."""
    if why := why_no_moods():
        pytest.skip(why)
    library = folder / "disk.so"
    source = Path(__file__).with_name("disk.c")
    command = ["cc", "-O1", "-Wall", "-Werror", "-fPIC", "-shared", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return library


def can_mount(folder: Path) -> bool:
    """Whether this user may mount a file system here."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0 or not shutil.which("mount"):
        return False
    try:
        SmallDisk(folder).unmount()
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
