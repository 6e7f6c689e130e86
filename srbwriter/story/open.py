"""Finding out what a story is: its file and log, an older version, damage, a file put in its place."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from srbwriter import paths
from srbwriter.story import backup
from srbwriter.story.disk import check_file, log_of, saving
from srbwriter.story.journal import FileLock, InUse
from srbwriter.story.library import free_path, place_of_second
from srbwriter.story.model import Blocked, NotAStory, ReadOnly, SecondFile, StoryError
from srbwriter.story.store import (
    SUFFIX,
    VERSION,
    Image,
    Log,
    append,
    check_tree,
    new_token,
    read,
    read_log,
    summary_of,
    with_log,
    write_whole,
)
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


def rescue_of(uuid: str) -> Path:
    """Return where the story with ``uuid`` is written to while its disk takes no words."""
    return paths.state_dir() / "rescued" / f"{uuid}{SUFFIX}"


def read_story(path: Path) -> Image:
    """Read a story as its last writer left it, with the log beside it. Changes nothing.

    Raises NotAStory, TooNew, NotSaved without room for a private copy of an old one, or DamagedStory.
    """
    with saving(path):
        return _look(path)[0]


def _look(path: Path) -> tuple[Image, Log | None]:
    """Return what a file and its log hold together, and the log, which may be that of another file."""
    image = read(path)
    for _ in range(5):  # the log may be folded just now
        if image.version < VERSION:
            return read_old(path), None
        left = read_log(path)
        if left is not None and left.belongs_to(image.token):
            return with_log(path, image, left), left
        before = image
        if left is None or (image := read(path)).token == before.token:
            break
    return _without_end(image), left  # pyright: ignore[reportPossiblyUnboundVariable]


def _without_end(image: Image) -> Image:
    """Return ``image`` with rows that were not written to the end of their batch, as damage."""
    if image.behind is not None:
        image.rows |= {key: row for key, row in image.behind.items() if row is not None}
        check_tree(image, "its end is lost", image.damage.doubtful if image.damage is not None else ())
    return image


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
        if lock is None:
            opened = Opened(path, read_story(path), read_only=why)
        else:
            with saving(path):
                opened = _read(path, lock, backups or paths.backup_dir())
        if (damage := opened.image.damage) is not None:
            message = f"{path.name} is damaged and was opened for reading only: {damage}"
            opened.read_only = ReadOnly(Blocked.DAMAGED, message)
            if lock is not None:
                lock.release()
            opened.lock = None
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
    """Read a story that is locked, and put what was left beside it into the file, or into a second one."""
    image, left = _look(path)
    opened = Opened(path, image, lock)
    if image.damage is not None:
        return opened
    if image.version < VERSION:
        _upgrade(path, image, backups)
    elif left is not None and left.batches and not left.belongs_to(image.token):
        opened.second_file = _second_file(path, image, left, backups)
    elif left is not None and left.batches:
        os.truncate(path, image.end)
        before, image.token = image.token, left.batches[-1][0]
        append(path, left.rows, image.token, before, summary_of(image.rows))
    log_of(path).unlink(missing_ok=True)
    _take_rescued(opened)
    return opened


def _second_file(path: Path, image: Image, left: Log, backups: Path) -> SecondFile | None:
    """Write what a log of another file holds to a second file, upon the nearest version that there is."""
    base = image
    with contextlib.suppress(StoryError, IndexError):
        if left.story and left.story != image.rows.get(("value", "uuid")):
            base = read(backup.backups(backup.own_folder(left.story, path, backups))[0].path)
    merged = Image({key: row for key, row in (base.rows | left.rows).items() if row is not None})
    check_tree(merged, "")
    target = place_of_second(path, merged.rows)
    write_whole(target, merged.rows, new_token())
    log.warning("%s was replaced by another program; what was written here is in %s", path, target)
    return SecondFile(path, target)


def _take_rescued(opened: Opened) -> None:
    """Take over what was written elsewhere while the disk took no words."""
    path, file = opened.path, rescue_of(str(opened.image.rows.get(("value", "uuid"), "")))
    if not file.exists():
        return
    try:
        found = read(file)
    except (StoryError, OSError) as error:
        log.warning("%s cannot be read: %s", file, error)
        return
    if found.damage is None and found.rows.pop(("value", "builds on"), "") == opened.image.token:
        found.token = new_token()
        _replace(path, found)
        opened.image = found
    else:
        target = free_path(path.parent, f"{path.stem} your version")
        shutil.copyfile(file, target)
        opened.second_file = SecondFile(path, target)
    file.unlink()


def _replace(path: Path, image: Image) -> None:
    """Write a story anew in its own place."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.unlink(missing_ok=True)
        write_whole(part, image.rows, image.token)
        shutil.copymode(path, part)
        paths.replace_durably(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _upgrade(path: Path, image: Image, backups: Path) -> None:
    """Write a story of an older version anew, after copying it. Raises NotSaved or OSError."""
    folder = backup.own_folder(image.rows.get(("value", "uuid")), path, backups)
    backup.keep_old(path, folder, "before the upgrade from version 7")
    image.token = new_token()
    _replace(path, image)
    for suffix in ("-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


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
        image = Image(dict(rows), new_token())
        write_whole(path, image.rows, image.token)
        return Opened(path, image, lock)
    except BaseException as error:
        lock.release()
        if isinstance(error, FileExistsError):
            raise NotAStory(path, "is already there — choose another name, or open it") from None
        raise
