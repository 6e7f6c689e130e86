"""Finding out what a story is: its file, an older version, damage, a file put in its place."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from srbwriter import paths
from srbwriter.story import backup
from srbwriter.story.disk import changes_of, check_file, saving
from srbwriter.story.journal import FileLock, InUse
from srbwriter.story.library import place_of_second
from srbwriter.story.model import Blocked, NotAStory, NotSaved, ReadOnly, SecondFile, StoryError
from srbwriter.story.store import (
    VERSION,
    Image,
    append,
    check_tree,
    lines,
    new_token,
    read,
    summary_of,
    write_whole,
)
from srbwriter.story.tree import Rows
from srbwriter.story.upgrade import read_story

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Opened:
    """A story that was read: what it holds, its lock if it can be written to, and notices for the writer."""

    path: Path
    image: Image
    lock: FileLock | None = None
    read_only: ReadOnly | None = None
    second_file: SecondFile | None = None


def open_story(
    path: Path, *, readonly: bool, backups: Path | None = None, lock: FileLock | None = None
) -> Opened:
    """Read the story at ``path``, for writing if that is possible and ``readonly`` is false.

    ``lock`` is its lock if the caller has it.

    Raises NotAStory, TooNew or DamagedStory.
    """
    path = paths.expanded(path).resolve()
    why = ReadOnly(Blocked.ASKED, f"{path.name} was opened for reading only") if readonly else None
    try:
        check_file(path)
        if why is None and lock is None:
            lock, why = locked(path)
        opened = Opened(path, read_story(path, torn=lock.killed if lock is not None else None), lock, why)
        if (damage := opened.image.damage) is not None:
            message = f"{path.name} is damaged and was opened for reading only: {damage}"
            opened.read_only, opened.lock = ReadOnly(Blocked.DAMAGED, message), None
            if lock is not None:
                lock.release()
        elif lock is not None:
            try:
                with saving(path):
                    if opened.image.version < VERSION:
                        _upgrade(opened, backups or paths.backup_dir())
                    _take_up_changes(opened)
            except NotSaved as error:  # the disk takes nothing now
                message = f"{path.name} was opened for reading only: {error.short}"
                opened.read_only, opened.lock = ReadOnly(Blocked.NO_PERMISSION, message), None
                lock.release()
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
        message = f"{path.name} is open in {error.holder}; this view is for reading only"
        return None, ReadOnly(Blocked.IN_USE, message)
    except OSError as error:
        message = f"the folder of {path.name} may not be written to ({error.strerror})"
        return None, ReadOnly(Blocked.NO_PERMISSION, message)


def _take_up_changes(opened: Opened) -> None:
    """Take up the changes of a program that was killed, or whose disk took no words.

    The file holds them, unless their last token is missing in it. A file that ends with a token of theirs is
    the writer's, and gets them; any other was put in its place, and they go into a second one.
    """
    path, image, file = opened.path, opened.image, changes_of(opened.path)
    try:
        kept = read(file, torn=True, keep_gone=True)
    except FileNotFoundError:
        return
    except (StoryError, OSError) as error:
        log.warning("changes of %s cannot be read: %s", path, error)
        kept = Image()
    if len(kept.tokens) > 1 and kept.token not in image.tokens:
        if image.token in kept.tokens:
            image.rows = _laid(image.rows, kept.rows)
            data = b"".join(lines(kept.rows, kept.token, summary_of(image.rows)))
            append(path, data, image.end)
            image.tokens.append(kept.token)
            image.end += len(data)
        else:
            ours = kept.rows["value", "uuid"] == image.rows.get(("value", "uuid"))
            second = Image(_laid(image.rows if ours else {}, kept.rows))
            check_tree(second, "")
            target = place_of_second(path, second.rows)
            write_whole(target, second.rows, new_token())
            log.warning("%s was replaced by another program; what was written here is in %s", path, target)
            opened.second_file = SecondFile(path, target)
    file.unlink()


def _upgrade(opened: Opened, backups: Path) -> None:
    """Rewrite a story of an older version, after copying it. Raises NotSaved or OSError."""
    path, image, token = opened.path, opened.image, new_token()
    backup.keep_old(path, image.rows.get(("value", "uuid")), backups)
    image.note_whole(write_whole(path, image.rows, token, instead=True), token)
    for suffix in ("-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _laid(rows: Rows, more: Rows) -> Rows:
    return {key: row for key, row in (rows | more).items() if row is not None}


def create_story(path: Path, rows: Rows) -> Opened:
    """Create a story file with ``rows``. Raises NotAStory if it exists, NotSaved or OSError."""
    path = paths.expanded(path)
    if path.is_dir():
        raise NotAStory(path, "is a folder — name a file in it")
    if not path.parts[0].startswith("~"):  # an unknown user's home stays unexpanded
        paths.make_folder(path.parent)
    path = path.resolve()
    lock = FileLock(path)
    try:
        image, token = Image(dict(rows)), new_token()
        image.note_whole(write_whole(path, image.rows, token), token)
        changes_of(path).unlink(missing_ok=True)  # of a file that was here before
        return Opened(path, image, lock)
    except BaseException:
        lock.release()
        raise
