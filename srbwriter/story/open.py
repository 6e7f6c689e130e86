"""From a path to an open file: the lock, the permission, the upgrade, the damage.

Decides whether a story may be written; knows nothing of nodes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from srbwriter.story.backup import snapshot
from srbwriter.story.lock import FileLock, InUse
from srbwriter.story.recovery import recover
from srbwriter.story.store import DamagedStory, Store, check_file
from srbwriter.story.types import Blocked, Damage, NotSaved, ReadOnly

SMALL_BYTES = 32 * 2**20
"""Files up to this size are looked at whole when they are opened; larger ones if damage was met."""


@dataclass(slots=True)
class Opened:
    """What it took to open a story."""

    path: Path
    store: Store
    lock: FileLock | None
    read_only: ReadOnly | None
    damage: Damage | None = None

    def close(self) -> None:
        self.store.close()
        if self.lock is not None:
            self.lock.release()


def open_story(path: Path, *, readonly: bool, backups: Path | None = None) -> Opened:
    """Open the story at ``path``, for writing if that is possible and not unwanted.

    Before an old story is brought up to date, a copy of it goes into ``backups``.

    Raises NotAStory, TooNew, or NotSaved if an upgrade found no room.
    """
    path = path.expanduser().resolve()
    check_file(path)
    lock: FileLock | None = None
    why = ReadOnly(Blocked.ASKED, f"{path.name} was opened for reading only") if readonly else None
    if why is None:
        lock, why = _lock(path)
    try:
        return _open(path, lock, why, backups)
    except BaseException:
        if lock is not None:
            lock.release()
        raise


def _open(path: Path, lock: FileLock | None, why: ReadOnly | None, backups: Path | None) -> Opened:
    def keep(version: int) -> None:
        if backups is not None:
            snapshot(path, backups / path.stem, f"before the upgrade from version {version}")

    try:
        store = Store.open(path, writable=why is None, before_upgrade=keep)
    except DamagedStory as error:
        return _recovered(path, lock, error)
    except NotSaved:
        if why is None:
            raise
        store = Store.open(path, writable=False)
    try:
        small = path.stat().st_size <= SMALL_BYTES
        store.check(thorough=small or (lock is not None and lock.suspect))
    except DamagedStory as error:
        store.close()
        return _recovered(path, lock, error)
    except BaseException:
        store.close()
        raise
    if lock is not None:
        lock.suspect = False
        lock.sign()
        store.on_damage = lambda: _suspect(lock)
    return Opened(path, store, lock, why)


def _suspect(lock: FileLock) -> None:
    """Let the next opener look at every page."""
    lock.suspect = True
    lock.sign()


def _recovered(path: Path, lock: FileLock | None, error: DamagedStory) -> Opened:
    store, damage = recover(path, error.problem)
    if lock is not None:
        lock.release()
    why = ReadOnly(Blocked.DAMAGED, f"{path.name} is damaged and was opened for reading only: {damage}")
    return Opened(path, store, None, why, damage)


def create_story(path: Path) -> Opened:
    """A new, empty story file. Raises NotAStory if there is one, NotSaved if it cannot be made."""
    path = path.expanduser().resolve()
    try:
        lock = FileLock(path)
    except InUse as error:
        raise NotSaved(path, f"the story is open in {error.who}", full=False) from None
    except OSError as error:
        raise NotSaved(path, error.strerror or str(error), full=False) from error
    try:
        return Opened(path, Store.create(path), lock, None)
    except BaseException:
        lock.release()
        raise


def _lock(path: Path) -> tuple[FileLock | None, ReadOnly | None]:
    if not os.access(path, os.W_OK):
        return None, ReadOnly(Blocked.NO_PERMISSION, f"{path.name} may not be written to")
    try:
        return FileLock(path), None
    except InUse as error:
        message = f"{path.name} is open in {error.who}; this view is for reading only"
        return None, ReadOnly(Blocked.IN_USE, message)
    except OSError as error:
        message = f"the folder of {path.name} may not be written to ({error.strerror})"
        return None, ReadOnly(Blocked.NO_PERMISSION, message)


def remove(path: Path) -> None:
    """Take back a file that was just made and could not be filled."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
