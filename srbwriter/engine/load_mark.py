"""A mark that stands while a file is loaded, so that one that ends the process is not loaded again and again.

A damaged or exotic file can end the process in ways that no check foresees. What is left of its mark says so
at the next start. Knows files and processes, no model.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import platform
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

from srbwriter import paths

from .types import ModelError

log = logging.getLogger(__name__)

_held: set[Path] = set()  # marks of loads that this process is in
_lock = threading.Lock()


@contextlib.contextmanager
def marked(path: Path, anyway: bool = False) -> Generator[None]:
    """Keep a mark while ``path`` is loaded. Where no mark can be kept, loading goes on without.

    Raises ModelError when a process ended while it loaded this very file, unless that is to be risked.
    """
    name = hashlib.blake2b(os.fsencode(path.resolve()), digest_size=12).hexdigest()
    left = [mark for mark in marks_dir().glob(f"{name}.*") if _is_left(mark, path)]
    if left and not anyway:
        raise ModelError(
            str(path),
            "srbwriter ended while it was loading this file",
            "if something else ended it, load the file with --load-anyway; else download it again",
        )
    mark = marks_dir() / f"{name}.{os.getpid()}.{threading.get_ident()}"
    with _lock:
        _held.add(mark)
    try:
        _write(mark, path)
        yield
        for old in left:
            old.unlink(missing_ok=True)
    finally:
        with contextlib.suppress(OSError):
            mark.unlink(missing_ok=True)
        with _lock:
            _held.discard(mark)


def marks_dir() -> Path:
    return paths.state_dir() / "loading"


def _write(mark: Path, path: Path) -> None:
    try:
        paths.make_folder(mark.parent)
        with open(mark, "w", encoding="utf-8", opener=paths.open_own) as file:
            json.dump({"pid": os.getpid(), **_here(), **_looks(path)}, file)
    except OSError as error:
        log.info("loading goes unmarked: %s", error)


def _is_left(mark: Path, path: Path) -> bool:
    """Whether whoever made a mark has ended, and the file is still as it was."""
    if mark in _held:
        return False
    try:
        told = cast("dict[str, Any]", json.loads(mark.read_text("utf-8")))
        pid = int(told["pid"])
        if any(told[name] != value for name, value in _here().items()):
            return False  # another machine's, or from before it was started anew
        if any(told[name] != value for name, value in _looks(path).items()):
            mark.unlink(missing_ok=True)
            return False
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return False
    return pid == os.getpid() or not _runs(pid)


def _looks(path: Path) -> dict[str, int]:
    """What changes with a file."""
    try:
        found = path.stat()
    except OSError:
        return {"size": -1, "changed": -1}
    return {"size": found.st_size, "changed": found.st_mtime_ns}


def _here() -> dict[str, str]:
    """Names this machine, and its life since it was started."""
    boot = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return {"host": platform.node(), "boot": boot}


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is somebody else's
        return True
    return True
