"""Paths: the writer's folders, and the files packed with the program.

The lowest module of the package: it imports platformdirs and nothing else of srbwriter. Functions return the
path of a folder without creating it; the code that writes into it creates it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from platformdirs.api import PlatformDirsABC


def _platform_dirs() -> PlatformDirsABC:
    from platformdirs import PlatformDirs  # costs as much as the rest of a short command's start

    return PlatformDirs("srbwriter", appauthor=False)


def config_dir() -> Path:
    """The writer's own settings; the program only ever reads here."""
    return _platform_dirs().user_config_path


def data_dir() -> Path:
    """What the writer would miss: stories and models."""
    return _platform_dirs().user_data_path


def state_dir() -> Path:
    """What the program remembers between runs: overlay, logs, backups, locks."""
    return _platform_dirs().user_state_path


def cache_dir() -> Path:
    """What can be deleted at any time."""
    return _platform_dirs().user_cache_path


def states_dir() -> Path:
    """What models made of texts they have read, so that they need not read them again."""
    return cache_dir() / "states"


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


OWN_FILE, OWN_FOLDER = 0o600, 0o700
"""The modes of the program's own files and folders: only their owner can read them."""


def open_own(name: str, flags: int) -> int:
    """Open a file of the program's own: the ``opener`` of :func:`open`."""
    return os.open(name, flags, OWN_FILE)


def make_folder(folder: Path) -> None:
    """Create ``folder``, and those above it that are missing, for its owner alone. Raises OSError.

    One that is there keeps its mode.
    """
    try:
        folder.mkdir(OWN_FOLDER)
    except FileNotFoundError:
        make_folder(folder.parent)
        folder.mkdir(OWN_FOLDER, exist_ok=True)
    except OSError:
        if not folder.is_dir():
            raise


def tighten_folders() -> None:
    """Close the program's own folders to other users; earlier versions made them readable for all.

    A folder that is a link, another user's, or open to a group alone was set up so by a person, and stays.
    """
    for folder in (library_dir(), backup_dir(), state_dir(), cache_dir()):
        if not folder.is_symlink():
            tighten(folder, OWN_FOLDER)


def tighten(path: Path, mode: int) -> None:
    """Give ``path`` the mode ``mode`` if everybody could read or enter it, and it is ours."""
    with contextlib.suppress(OSError):
        status = path.stat()
        if status.st_mode & 0o007 and status.st_uid == os.getuid():
            path.chmod(mode)


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
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def write_durable(path: Path, data: bytes, opener: Callable[[str, int], int] | None = None) -> None:
    """Write a file and wait until the disk has it. Raises OSError, and may leave part of the file."""
    with open(path, "wb", opener=opener) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_durably(temporary: Path, path: Path) -> None:
    """Give a file the name of another in its folder, whose place it takes. Raises OSError."""
    os.replace(temporary, path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` durable where the system can open folders."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
