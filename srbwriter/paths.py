"""Paths: the writer's folders, and the files packed with the program.

The lowest module of the package: it imports platformdirs and nothing else of srbwriter. Functions return the
path of a folder without creating it; the code that writes into it creates it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal


def _folder(kind: Literal["config", "data", "state", "cache"]) -> Path:
    from platformdirs import PlatformDirs  # costs as much as the rest of a short command's start

    return Path(getattr(PlatformDirs("srbwriter", appauthor=False), f"user_{kind}_dir"))


def config_dir() -> Path:
    """The writer's own settings; the program only ever reads here."""
    return _folder("config")


def data_dir() -> Path:
    """What the writer would miss: stories and models."""
    return _folder("data")


def state_dir() -> Path:
    """What the program remembers between runs: overlay, logs, backups, locks."""
    return _folder("state")


def cache_dir() -> Path:
    """What can be deleted at any time."""
    return _folder("cache")


def config_file() -> Path:
    return config_dir() / "config.toml"


def overlay_file() -> Path:
    """Settings the program remembered, below the writer's own in rank."""
    return state_dir() / "remembered.toml"


def log_dir() -> Path:
    return state_dir() / "logs"


def log_file() -> Path:
    return log_dir() / "srbwriter.log"


def library_dir() -> Path:
    """Stories that were given no other place."""
    return data_dir() / "library"


def backup_dir() -> Path:
    """Copies of stories, in a folder for each."""
    return state_dir() / "backups"


def recent_file() -> Path:
    """The stories that were open lately."""
    return state_dir() / "recent.json"


def models_dir() -> Path:
    """Model files that can be named without their folder."""
    return data_dir() / "models"


OWN_FILE = 0o600
"""The mode of the program's own files: only their owner can read them."""


def open_own(name: str, flags: int) -> int:
    """Open a file that only its owner can read: the ``opener`` of :func:`open`."""
    return os.open(name, flags, OWN_FILE)


def make_folder(folder: Path) -> None:
    """Create ``folder``, and those above it that are missing, for its owner alone. Raises OSError.

    One that is there keeps its mode.
    """
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(0o700, exist_ok=True)


def expanded(path: str | os.PathLike[str]) -> Path:
    """Expand ``~`` and ``~NAME`` at the beginning like a shell; an unknown name stays as it is."""
    return Path(os.path.expanduser(path))  # Path.expanduser() raises RuntimeError there


def shortened(name: str, most: int) -> str:
    """As much of a file's name as ``most`` bytes hold: file systems count bytes, not characters."""
    return os.fsencode(name)[:most].decode("utf-8", "ignore")


def asset_dir(name: str) -> Path:
    """Return the folder ``name`` (``themes``, ``sample_prompts``) that ships with the program.

    In a wheel the folder is inside the package, in a checkout beside it.

    Raises:
        FileNotFoundError: neither place has it; the installation is incomplete.
    """
    package = Path(__file__).parent
    for place in (package / name, package.parent / name):
        if place.is_dir():
            return place
    raise FileNotFoundError(f"{package / name}: the installation is incomplete; install srbwriter again")


def write_atomic(path: Path, data: bytes) -> None:
    """Replace ``path``, a file of the program's own, by ``data``.

    A crash leaves either the old file or the new one, whole. The folder is created if need be. Raises OSError
    as the file system does; ``path`` is then as it was.
    """
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        write_durable(temporary, data, open_own)
        replace_durably(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_durable(path: Path, data: bytes, opener: Callable[[str, int], int] | None = None) -> None:
    """Write a file and wait until the disk has it. Raises OSError, and may leave part of the file."""
    with open(path, "wb", opener=opener) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_durably(temporary: Path, path: Path) -> None:
    """Give a file the name of another in its folder, whose place it takes. Raises OSError."""
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    except OSError:
        pass  # a file system that cannot do this for folders
    finally:
        os.close(folder)
