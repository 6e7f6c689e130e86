"""Opening a story file: its lock, permissions, the copy before an upgrade, and damage.

A file is checked before it is opened for writing. If it is damaged, the readable rows are taken from a
private copy, and neither the file nor the log beside it is changed.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from srbwriter import paths
from srbwriter.story.backup import own_folder, put_down, restore, snapshot
from srbwriter.story.check import verify
from srbwriter.story.checkpoint import Checkpointer
from srbwriter.story.connection import check_file, connect, has_log, in_words, not_saved, remove_log
from srbwriter.story.library import free_path
from srbwriter.story.lock import FileLock, InUse, Note
from srbwriter.story.migrations import VERSION
from srbwriter.story.model import (
    Blocked,
    Damage,
    DamagedStory,
    NotAStory,
    NotSaved,
    ReadOnly,
    SecondFile,
    StoryError,
)
from srbwriter.story.recovery import recover
from srbwriter.story.shadow import Shadow, discard, fold, log_of, shadow_of, was_replaced
from srbwriter.story.store import Store

log = logging.getLogger(__name__)

SMALL_BYTES = 32 * 2**20
"""Files up to this size are checked whole when they are opened; larger ones only after damage or a crash."""

_MOST_NODES = 500
"""Nodes that may be only in the log before a checkpoint is forced, so that the note stays short."""


class _Watch:
    """Keeps the note in the lock file, the log and the shadow of a story that is open for writing."""

    def __init__(self, store: Store, lock: FileLock) -> None:
        self._store, self._lock = store, lock
        self._begin()
        store.on_commit, store.on_damage, store.on_replaced = self._committed, self._damaged, self._go_on

    def _begin(self) -> None:
        left = self._lock.note
        story = str(self._store.value("uuid", ""))
        nodes = left.nodes if story == left.story and not self._store.checkpoint() else set[int]()
        self._lock.note = Note(story=story, commits=self._store.numbered()[0], nodes=nodes)
        self._lock.sign()
        self._shadow = Shadow(self._store.path, self._store.raw)
        self._checkpointer = Checkpointer(self._store, self._shadow, self._folded)

    def _committed(self) -> None:
        note = self._lock.note
        note.commits = self._store.commits
        note.nodes |= self._store.touched
        self._store.touched.clear()
        with suppress(StoryError):  # the commit itself is on the disk already
            note.story = note.story or str(self._store.value("uuid", ""))
        self._checkpointer.count_commit(len(note.nodes) > _MOST_NODES)
        self._lock.sign()

    def _folded(self) -> None:
        self._lock.note.nodes.clear()
        self._lock.sign()

    def _damaged(self) -> None:
        """Mark the file as suspect, so that the next opening checks every page; stop checkpoints."""
        self._lock.note.suspect = True
        self._lock.sign()
        self._checkpointer.abandon()

    def _go_on(self) -> None:
        """Go on in a second file, because another program has replaced the story's or changed it.

        Raises NotSaved. Both versions are on the disk all the time.
        """
        store, old, lock = self._store, self._store.path, self._lock
        new = _second_file(old, store.db if store.renamed_over else None)
        taken = FileLock.take(new)
        store.move_to(new)
        self._lock = taken
        self._checkpointer.abandon()
        self._shadow.close()
        lock.note = Note()
        lock.release()
        self._begin()
        store.second_file = SecondFile(old, new)

    def stop(self) -> None:
        """Wait for a running checkpoint. Never call it while a verb waits."""
        self._checkpointer.stop()

    def close(self) -> None:
        """Close the store and release the lock."""
        store = self._store
        if store.replaced and store.commits:
            with suppress(StoryError):  # then the next opening does it
                self._go_on()
        replaced, suspect = store.replaced, self._lock.note.suspect
        store.close(fold=not replaced and not suspect)
        keep = store.commits > 0 and shadow_of(store.path).exists() if replaced else suspect
        if replaced and not keep:
            store.remove_log(keep=store.commits > 0)
        self._shadow.close(keep)
        if not keep:
            self._lock.note = Note()
        self._lock.release()


def _second_file(path: Path, db: sqlite3.Connection | None = None) -> Path:
    """Write a story whose file was replaced to a new file beside it: from ``db``, or its shadow and log.

    Raises NotSaved.
    """
    copy = shadow_of(path)
    if db is None and not copy.exists():
        raise NotSaved(path, "another program has changed the file", full=False)
    target = free_path(path.parent, f"{path.stem} your version")
    discard(target)
    with in_words(path):
        if db is None:
            try:
                fold(path, log_of(path))
            except OSError as error:
                raise not_saved(path, error) from error
            restore(copy, target)
        else:
            put_down(db, target)
    log.warning("%s was replaced by another program; the version that was open here is in %s", path, target)
    with suppress(DamagedStory, NotSaved):
        store = Store.open(target, writable=True)
        with closing(store), store.transaction():
            store.put_value("title", f"{store.value('title', '')} (your version)")
    return target


@dataclass(slots=True)
class Opened:
    """The resources of an open story."""

    path: Path
    store: Store
    read_only: ReadOnly | None = None
    damage: Damage | None = None
    watch: _Watch | None = None
    bare: bool = False
    """Whether there were no other files beside it, so that none must remain."""

    def close(self) -> None:
        if self.watch is not None:
            self.watch.close()
        else:
            self.store.close()
            if self.bare:
                _clear_beside(self.path)


def _clear_beside(path: Path) -> None:
    """Let SQLite remove the files that it put beside a database opened read-only; only a writer can."""
    with suppress(InUse, OSError, sqlite3.Error, NotSaved):
        if not has_log(path):
            return
        lock = FileLock(path)
        try:
            if lock.note == Note():
                connect(path, "rw").close()
        finally:
            lock.release()


def open_story(path: Path, *, readonly: bool, backups: Path | None = None) -> Opened:
    """Open the story at ``path``, for writing if that is possible and ``readonly`` is false.

    A story of an older version is copied to ``backups`` (by default the program's own folder) before its
    upgrade, and so is a story marked as suspect; if that fails, the story is opened read-only.

    Raises NotAStory, TooNew, or NotSaved without room for an upgrade or for the copy of a damaged file.
    """
    path = paths.expanded(path).resolve()
    check_file(path)
    lock: FileLock | None = None
    why = ReadOnly(Blocked.ASKED, f"{path.name} was opened for reading only") if readonly else None
    if why is None:
        lock, why = _lock(path)
    opened: Opened | None = None
    try:
        if why is None and path.is_relative_to(paths.library_dir().resolve()):
            paths.tighten(path, paths.OWN_FILE)  # older versions left it readable for others
        second: SecondFile | None = None
        if lock is not None and was_replaced(path):
            try:
                second = SecondFile(path, _second_file(path))
            except StoryError as error:
                message = (
                    f"{path.name} was opened for reading only: what was open here must be kept, but {error}"
                )
                why = ReadOnly(Blocked.NO_COPY, message)
            else:
                remove_log(path)
                lock.note = Note()
        if lock is not None and why is None:
            discard(path)
        opened = _open(path, lock, why, backups or paths.backup_dir())
        opened.store.second_file = second
        return opened
    finally:
        if lock is not None and (opened is None or opened.watch is None):
            lock.release()


def _open(path: Path, lock: FileLock | None, why: ReadOnly | None, backups: Path) -> Opened:
    note = lock.note if lock is not None and why is None else Note.read(path)
    crashed = lock is not None and (has_log(path) or note != Note())
    bare = not has_log(path) and note == Note()
    try:
        with Store.look(path) as look:
            verify(look, note, thorough=crashed or note.suspect or path.stat().st_size <= SMALL_BYTES)
            folder = own_folder(look.value("uuid"), path, backups) if look.version else backups
        if why is None and 0 < look.version < VERSION:
            why = _copied(path, folder, f"before the upgrade from version {look.version}")
        elif why is None and note.suspect:
            why = _copied(path, folder, "after damage was met")
        store = Store.open(path, writable=why is None)
    except DamagedStory as error:
        return recovered(path, error.problem, note)
    if lock is None or why is not None:
        return Opened(path, store, why, bare=bare)
    try:
        return Opened(path, store, watch=_Watch(store, lock))
    except BaseException:
        store.close()
        raise


def _copied(path: Path, folder: Path, name: str) -> ReadOnly | None:
    """Copy a story before all of it is changed; return why it is read-only if that fails."""
    try:
        snapshot(path, folder, name)
    except NotSaved as error:
        message = f"{path.name} was opened for reading only: it has to be copied first, but {error}"
        return ReadOnly(Blocked.NO_COPY, message)
    return None


def recovered(path: Path, problem: str, note: Note | None = None) -> Opened:
    """Open the readable part of a damaged story, read-only. Raises NotAStory, or NotSaved without room."""
    store, damage = recover(path, problem, note or Note.read(path))
    why = ReadOnly(Blocked.DAMAGED, f"{path.name} is damaged and was opened for reading only: {damage}")
    return Opened(path, store, why, damage)


def create_story(path: Path) -> Opened:
    """Create an empty story file. Raises NotAStory if ``path`` is a folder, NotSaved or OSError."""
    path = paths.expanded(path)
    if path.is_dir():
        raise NotAStory(path, "is a folder — name a file in it")
    if not path.parts[0].startswith("~"):  # an unknown user's home stays unexpanded
        paths.make_folder(path.parent)
    path = path.resolve()
    lock = FileLock.take(path)
    try:
        store = Store.create(path)
        try:
            return Opened(path, store, watch=_Watch(store, lock))
        except BaseException:
            store.close()
            raise
    except BaseException:
        lock.release()
        raise


def _lock(path: Path) -> tuple[FileLock | None, ReadOnly | None]:
    if not os.access(path, os.W_OK):
        return None, ReadOnly(Blocked.NO_PERMISSION, f"{path.name} may not be written to")
    try:
        return FileLock(path), None
    except InUse as error:
        return None, ReadOnly(Blocked.IN_USE, f"{path.name} {error.problem}; this view is for reading only")
    except OSError as error:
        message = f"the folder of {path.name} may not be written to ({error.strerror})"
        return None, ReadOnly(Blocked.NO_PERMISSION, message)
