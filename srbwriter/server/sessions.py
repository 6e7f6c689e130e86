"""Saved sessions: the file that a name stands for, which depends on the client's key.

With one key or none, all files are in the folder itself. Where there are several, each key has a folder of
its own inside it, so that no key reads or overwrites the files of another.
"""

from __future__ import annotations

import errno
import hashlib
import re
from pathlib import Path

from srbwriter.server.settings import Client, ServerSettings, server_keys

BARE_NAME = re.compile(r"(?!\.)[\w.\- ]{1,200}")
"""The name of a file within a folder, which leads nowhere else."""


def find_session(settings: ServerSettings, client: Client, name: str) -> Path:
    """Return the file that ``client`` reads under a bare name; it may not exist.

    An admin's key also reads what was saved before there were several keys. Raises OSError for a link.
    """
    folder = settings.slot_save_path
    assert folder is not None
    file = _own_folder(settings, client) / name
    if client.admin and not file.exists():
        file = folder / name
    return _refuse_link(file)


def place_session(settings: ServerSettings, client: Client, name: str) -> Path:
    """Return the file that ``client`` writes under a bare name, in a folder that exists. Raises OSError."""
    folder = _own_folder(settings, client)
    folder.mkdir(mode=0o700, exist_ok=True)
    return _refuse_link(folder / name)


def _own_folder(settings: ServerSettings, client: Client) -> Path:
    folder = settings.slot_save_path
    assert folder is not None
    names = {key.name for key in server_keys(settings)}
    if len(names) < 2:
        return folder
    # The name is there for people. The hash tells apart what a file system does not: anna, Anna, an/na.
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", client.name)[:40]
    return folder / f"{readable}-{hashlib.sha256(client.name.encode()).hexdigest()[:32]}"


def _refuse_link(file: Path) -> Path:
    if file.is_symlink():
        raise OSError(errno.ELOOP, "it is a link to another file")
    return file
