"""Finding out what a story is: its file and log, an older version, damage, a file put in its place."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

from srbwriter import paths
from srbwriter.story import backup, store
from srbwriter.story.connection import check_file, log_of, not_saved
from srbwriter.story.journal import FileLock, InUse, Log, read_log
from srbwriter.story.library import free_path, place_of_second
from srbwriter.story.model import Blocked, NotAStory, ReadOnly, SecondFile, StoryError
from srbwriter.story.store import Image
from srbwriter.story.tree import Rows
from srbwriter.story.upgrade import read_old

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Opened:
    """A story that was read: what it holds, its lock if it can be written to, and what has to be told."""

    path: Path
    image: Image
    lock: FileLock | None = None
    read_only: ReadOnly | None = None
    second_file: SecondFile | None = None
    unsaved: Rows = field(default_factory=dict)  # type: ignore[type-arg]
    """Rows that the file lacks: of a log, or of words that the disk had refused."""


def rescue_of(uuid: str) -> Path:
    """Return where the story with ``uuid`` is written to while its disk takes no words."""
    return paths.state_dir() / "rescued" / f"{uuid}{store.SUFFIX}"


def read_story(path: Path) -> Image:
    """Read a story as its last writer left it, with the log beside it. Changes nothing.

    Raises NotAStory, TooNew, NotSaved without room for a private copy, or DamagedStory.
    """
    for _ in range(5):
        image = store.read(path)
        if image.version < store.VERSION:
            return read_old(path)
        found = read_log(path)
        rows = found.after(image.token) if found is not None else {}
        if rows is not None or (found is not None and store.token_of(path) == image.token):
            return _with_rows(image, rows) if rows else image
    return image  # pyright: ignore[reportPossiblyUnboundVariable]


def _with_rows(image: Image, rows: Rows) -> Image:
    for key, row in rows.items():
        if row is None:
            image.rows.pop(key, None)
        else:
            image.rows[key] = row
    image.rows.pop(("value", "count"), None)
    return store.checked(image, image.damage.problem if image.damage is not None else "")


def open_story(
    path: Path, *, readonly: bool, backups: Path | None = None, lock: FileLock | None = None
) -> Opened:
    """Read the story at ``path``, for writing if that is possible and ``readonly`` is false.

    ``lock`` is its lock if the caller has it.

    Raises NotAStory, TooNew, or NotSaved without room for an upgrade.
    """
    path = paths.expanded(path).resolve()
    why = ReadOnly(Blocked.ASKED, f"{path.name} was opened for reading only") if readonly else None
    try:
        check_file(path)
        if why is None and lock is None:
            lock, why = locked(path)
        opened = _read(path, lock, backups or paths.backup_dir()) if lock is not None else None
        if opened is None:
            opened = Opened(path, read_story(path), read_only=why)
        damage = opened.image.damage
        if damage is not None:
            message = f"{path.name} is damaged and was opened for reading only: {damage}"
            opened.read_only = ReadOnly(Blocked.DAMAGED, message)
        return opened
    except BaseException:
        if lock is not None:
            lock.release()
        raise


def locked(path: Path) -> tuple[FileLock | None, ReadOnly | None]:
    """Lock the story at ``path``, or say why it cannot be."""
    if not os.access(path, os.W_OK):
        return None, ReadOnly(Blocked.NO_PERMISSION, f"{path.name} may not be written to")
    try:
        return FileLock(path), None
    except InUse as error:
        return None, ReadOnly(Blocked.IN_USE, f"{path.name} {error.problem}; this view is for reading only")
    except OSError as error:
        message = f"the folder of {path.name} may not be written to ({error.strerror})"
        return None, ReadOnly(Blocked.NO_PERMISSION, message)


def _read(path: Path, lock: FileLock, backups: Path) -> Opened:
    """Read a story that is locked, and keep what was left beside it."""
    if path.is_relative_to(paths.library_dir().resolve()):
        paths.tighten(path, paths.OWN_FILE)  # older versions left it readable for others
    left, token = read_log(path), store.token_of(path)
    journal = Path(f"{path}-journal")
    foreign = left is not None and token is not None and left.after(token) is None
    if foreign and journal.exists():
        journal.rename(f"{journal}.kept")  # SQLite would lay it over the file
    image = store.read(path)
    if image.version < store.VERSION:
        return Opened(path, _upgraded(path, image.version, backups), lock)
    opened = Opened(path, image, lock)
    if foreign and left is not None:
        if left.all:
            opened.second_file = _second_file(path, image, left, backups)
        log_of(path).unlink(missing_ok=True)
    elif left is not None and (rows := left.after(image.token)):
        opened.unsaved = rows
        opened.image = _with_rows(image, rows)
    _take_rescued(opened, left)
    return opened


def _second_file(path: Path, image: Image, left: Log, backups: Path) -> SecondFile | None:
    """Write what a log of another file holds to a second file, upon the nearest version that there is."""
    base, uuid = image, str(image.value("uuid", ""))
    with contextlib.suppress(StoryError, IndexError):
        if left.story and left.story != uuid:
            copies = backup.backups(backup.own_folder(left.story, path, backups))
            base = store.read(copies[0].path)
    rows = {**base.rows, **{key: row for key, row in left.all.items() if row is not None}}
    merged = store.checked(Image(dict(rows)))
    target = place_of_second(path, merged.rows)
    try:
        store.write_whole(target, merged.rows, token_hex(8))
    except (OSError, sqlite3.Error) as error:
        raise not_saved(target, error) from error
    log.warning("%s was replaced by another program; what was written here is in %s", path, target)
    return SecondFile(path, target)


def _take_rescued(opened: Opened, left: Log | None) -> None:
    """Take over what was written elsewhere while the disk took no words."""
    file = rescue_of(str(opened.image.value("uuid", "")))
    if not file.exists():
        return
    try:
        found = store.read(file)
    except StoryError as error:
        log.warning("%s cannot be read: %s", file, error)
        return
    last = left.batches[-1][0] if left is not None and left.batches else opened.image.token
    if found.damage is None and found.value("builds on") in (last, opened.image.token):
        found.rows.pop(("value", "builds on"), None)
        found.token = opened.image.token
        opened.unsaved, opened.image = dict(found.rows), found
        opened.unsaved.pop(("value", "token"), None)
    else:
        target = free_path(opened.path.parent, f"{opened.path.stem} your version")
        shutil.copyfile(file, target)
        opened.second_file = SecondFile(opened.path, target)
        file.unlink()


def _upgraded(path: Path, version: int, backups: Path) -> Image:
    """Write a story of an older version anew, after copying it. Raises NotSaved or DamagedStory."""
    image = read_old(path)
    if image.damage is not None:
        return image
    folder = backup.own_folder(image.value("uuid"), path, backups)
    backup.keep_old(path, folder, f"before the upgrade from version {version}")
    part = path.with_name(f".{path.name}.{token_hex(4)}.part")
    image.token = token_hex(8)
    try:
        store.write_whole(part, image.rows, image.token)
        shutil.copymode(path, part)
        paths.replace_durably(part, path)
    except (OSError, sqlite3.Error) as error:
        part.unlink(missing_ok=True)
        raise not_saved(path, error) from error
    for suffix in ("-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    return image


def create_story(path: Path, rows: Rows) -> Opened:
    """Create a story file with ``rows``. Raises NotAStory if it exists, NotSaved or OSError."""
    path = paths.expanded(path)
    if path.is_dir():
        raise NotAStory(path, "is a folder — name a file in it")
    if not path.parts[0].startswith("~"):  # an unknown user's home stays unexpanded
        paths.make_folder(path.parent)
    path = path.resolve()
    lock = FileLock.take(path)
    try:
        token = token_hex(8)
        store.write_whole(path, rows, token)
        return Opened(path, Image(dict(rows), token), lock)
    except BaseException as error:
        lock.release()
        if isinstance(error, FileExistsError):
            raise NotAStory(path, "is already there — choose another name, or open it") from None
        if isinstance(error, sqlite3.Error):
            raise not_saved(path, error) from error
        raise
