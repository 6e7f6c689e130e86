"""Types and helpers of the checks: findings, shared data, and commands for reinstalling llama.cpp."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from srbwriter import paths
from srbwriter.engine.devices import Build, Device

if TYPE_CHECKING:
    from srbwriter.config import Settings

ROOT = Path("/")
"""The folder that contains ``proc``, ``sys`` and ``dev``."""

PROBE_SECONDS, PROGRAM_SECONDS = 60, 15

LLAMA = "llama-cpp-python"


class Finding(NamedTuple):
    """One sentence with a state: ok, note (worth knowing), or care (run the command in ``cure``)."""

    state: Literal["ok", "note", "care"]
    words: str
    cure: str = ""


class Native(NamedTuple):
    """What llama.cpp reports about itself, queried in a separate process."""

    build: Build
    devices: list[Device]
    amx_broken: bool


class NoNative(Exception):
    """llama.cpp does not respond; ``cure`` is a command that fixes it."""

    def __init__(self, problem: str, cure: str) -> None:
        self.cure = cure
        super().__init__(problem)


@dataclass
class Examination:
    """Data for the checks. Data that several checks need is collected once."""

    settings: Settings

    @cached_property
    def _native(self) -> Native | NoNative:
        return _ask_llama()

    @property
    def native(self) -> Native:
        """What llama.cpp reports about itself. Raises NoNative."""
        if isinstance(self._native, NoNative):
            raise self._native
        return self._native


Check = Callable[[Examination], Iterable[Finding]]


def run_program(command: Sequence[str], seconds: float = PROGRAM_SECONDS) -> str | None:
    """Return the output of a program; None if it is missing, fails, or takes longer than ``seconds``."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def pip() -> str:
    """Return the command for pip of the running Python."""
    found = shutil.which("pip")
    if found and Path(found).parent == Path(sys.executable).parent:
        return "pip"
    return f"{shlex.quote(sys.executable)} -m pip"


def reinstall(variables: str = "") -> str:
    """Return the command that rebuilds llama.cpp on this machine, with ``variables`` in its environment."""
    command = f"{pip()} install --force-reinstall --no-cache-dir --no-binary {LLAMA} {LLAMA}=={pinned()}"
    return f"{variables} {command}".strip()


def requirements() -> list[str]:
    """Return the requirements of this program, such as ``textual==8.2.8``; empty if unknown."""
    try:
        return [line for line in requires("srbwriter") or [] if "extra ==" not in line]
    except PackageNotFoundError:
        return []


def pinned() -> str:
    """Return the version of llama-cpp-python that this program requires."""
    named = [line.partition("==")[2] for line in requirements() if line.startswith(f"{LLAMA}==")]
    return named[0].strip() if named else version(LLAMA)


def shown(path: Path) -> str:
    """Return a path as typed in a shell, with ~ for the home folder."""
    home = paths.expanded("~")
    if path != home and path.is_relative_to(home):
        return f"~/{shlex.quote(str(path.relative_to(home)))}"
    return shlex.quote(str(path))


def nearest_folder(path: Path) -> Path:
    """Return the folder, or its nearest existing parent."""
    return next((folder for folder in (path, *path.parents) if folder.exists()), Path("/"))


def _ask_llama() -> Native | NoNative:
    command = [sys.executable, "-m", "srbwriter.engine.probe"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_SECONDS, text=True,
            errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        problem = f"llama.cpp does not answer within {PROBE_SECONDS} seconds; the driver of a GPU may hang"
        return NoNative(problem, "sudo reboot")
    if done.returncode == -signal.SIGILL:
        return NoNative("llama.cpp was built for another processor than this one", reinstall())
    try:
        report = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"])[-1]
        return NoNative(f"llama.cpp cannot be loaded: {last}", reinstall())
    if "error" in report:
        return NoNative(report["error"], reinstall())
    return _parsed(report)


def _parsed(report: dict[str, Any]) -> Native:
    build = Build(**report["build"] | {"backends": tuple(report["build"]["backends"])})
    return Native(build, [Device(**row) for row in report["devices"]], report["amx_broken"])
