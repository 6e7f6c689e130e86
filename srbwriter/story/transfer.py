"""A story out into a file, and a file into a story: the work, the same for every face.

It is done into a file of its own beside the place it is meant for, under a name that nobody looks for; that
file gets its real name at the very end. So the work can be broken off or killed at any moment, and what lies
at the real place is either what lay there before or the whole of the new.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from srbwriter import paths
from srbwriter.story import formats, library
from srbwriter.story.connection import MAGIC
from srbwriter.story.model import (
    DamagedStory,
    NotAStory,
    OnProgress,
    StoryError,
    as_list,
    no_progress,
    within,
)
from srbwriter.story.open import remove
from srbwriter.story.store import SUFFIX
from srbwriter.story.story import Story

_READ, _FILLED = 0.1, 0.75  # of an export: the story is open, its nodes are read; the rest is the format's
_PARSED = 0.3  # of an import: the file is understood; the rest is the new story's

_CURES = {
    errno.ENOENT: "there is no such file — check the name",
    errno.ENOTDIR: "there is no such folder — check the name",
    errno.EISDIR: "is a folder — name a file in it",
    errno.EACCES: "access is not permitted — change the permissions, or choose another place",
    errno.EPERM: "access is not permitted — change the permissions, or choose another place",
    errno.EROFS: "nothing can be written there — choose another place",
    errno.ENOSPC: "the disk is full — free some space, and try again",
    errno.EDQUOT: "the disk is full for you — free some space, and try again",
    errno.ENAMETOOLONG: "the name is too long — choose a shorter one",
}


class TransferError(StoryError):
    """A file cannot be read or written. Names it, and says what can be done."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")

    @classmethod
    def of(cls, path: Path, error: OSError) -> TransferError:
        """What the system said about ``path``, in words."""
        return cls(path, _CURES.get(error.errno or 0) or error.strerror or str(error))


@dataclass(frozen=True, slots=True)
class Made:
    """What was made, before it is at its place: the story's title, and what the writer should be told."""

    title: str
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Landed:
    """A transfer that is done: where the result lies, the story's title, what the writer should know."""

    path: Path
    title: str
    notices: tuple[str, ...] = ()


class Transfer(Protocol):
    """A piece of work in three steps. ``make`` may be done by another process."""

    def make(self, progress: OnProgress = no_progress) -> Made:
        """Do the work, into the temporary file. Raises StoryError, DraftError or FormatError."""
        ...

    def land(self, made: Made) -> Landed:
        """Give the temporary file its real name. Raises StoryError."""
        ...

    def drop(self) -> None:
        """Remove the temporary file, whatever there is of it."""
        ...


def carry_out(transfer: Transfer) -> Landed:
    """All of it, here and now. Raises what the steps raise; then nothing is left behind."""
    try:
        return transfer.land(transfer.make())
    except BaseException:
        transfer.drop()
        raise


def rendered(source: Path, form: str, progress: OnProgress = no_progress) -> tuple[str, bytes]:
    """Title and bytes of the story in ``source``, in the format called ``form``.

    The story may be open for writing elsewhere. Raises NotAStory, DamagedStory or DraftError.
    """
    with Story.open(source, readonly=True) as story:
        if story.damage is not None:
            raise DamagedStory(story.file, str(story.damage))
        progress(_READ)
        draft = story.to_draft(within(progress, _READ, _FILLED))
    progress(_FILLED)
    return draft.title, formats.write(draft, form)


def _beside(path: Path) -> Path:
    """A name in the folder of ``path`` that nobody has, and that no list of stories shows."""
    return path.with_name(f".{paths.shortened(path.name, 80)}.{uuid4().hex[:8]}.part")


@dataclass(frozen=True, slots=True)
class Export:
    """The story in the file ``source`` becomes the file ``target`` in the format called ``form``.

    A target that is there is replaced only with ``force``.
    """

    source: Path
    target: Path
    form: str
    force: bool = False
    part: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "part", _beside(self.target))

    def make(self, progress: OnProgress = no_progress) -> Made:
        title, data = rendered(self.source, self.form, progress)
        try:
            paths.write_durable(self.part, data)
        except OSError as error:
            raise TransferError.of(self.target, error) from error
        progress(1)
        return Made(title)

    def land(self, made: Made) -> Landed:
        if self.target.exists() and not self.force:
            raise TransferError(self.target, "is there already — choose another name")
        try:
            paths.replace_durably(self.part, self.target)
        except OSError as error:
            raise TransferError.of(self.target, error) from error
        return Landed(self.target, made.title, made.notices)

    def drop(self) -> None:
        self.part.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Import:
    """What is in ``file`` becomes a new story in ``folder``, or the story file ``target`` if that is given.

    ``data`` is what to read instead of the file, whose name then is only for messages. ``title`` takes the
    place of the file's own, and ``untitled`` is for a file without one; the file's name if empty.
    ``encoding`` is that of a text which is not in UTF, ``form`` the name of the format to read the file as,
    whatever it looks like.
    """

    file: Path
    folder: Path
    target: Path | None = None
    title: str = ""
    data: bytes | None = None
    untitled: str = ""
    encoding: str = ""
    form: str = ""
    part: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "part", _beside(self.target or self.folder / "import"))

    def make(self, progress: OnProgress = no_progress) -> Made:
        if self.target is not None and self.target.exists():
            raise NotAStory(self.target, "is already there — choose another name, or open it")
        draft = formats.read(
            self._read(),
            str(self.file),
            within(progress, 0, _PARSED),
            encoding=self.encoding,
            format_name=self.form,
        )
        progress(_PARSED)
        notices = as_list(draft.meta.pop("notices", []))
        titles = (self.title, draft.title, self.untitled, self.file.stem)
        title = next(filter(None, (" ".join(title.split()) for title in titles)), "")
        try:
            self.part.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TransferError.of(self.part.parent, error) from error
        Story.from_draft(self.part, replace(draft, title=title), within(progress, _PARSED, 1)).close()
        progress(1)
        return Made(title, tuple(map(str, notices)))

    def _read(self) -> bytes:
        if self.data is not None:
            return self.data
        if self.file.is_char_device() or self.file.is_block_device():
            raise TransferError(self.file, "is a device — name a file")
        try:
            data = self.file.read_bytes()
        except OSError as error:
            raise TransferError.of(self.file, error) from error
        if self.file.suffix == SUFFIX and not data.startswith(MAGIC):
            raise TransferError(
                self.file, "has the name of a story and is none — if it is a text, give it a name in .txt"
            )
        return data

    def land(self, made: Made) -> Landed:
        if self.target is not None:
            return Landed(library.move(self.part, self.target), made.title, made.notices)
        while True:
            try:
                found = library.move(self.part, library.free_path(self.folder, made.title))
            except library.Taken:
                continue  # somebody was faster; the next name
            return Landed(found, made.title, made.notices)

    def drop(self) -> None:
        remove(self.part)
        self.part.with_name(f".{self.part.name}.lock").unlink(missing_ok=True)


def check_target(target: Path, *, force: bool) -> None:
    """Raise TransferError, before any work, if nothing can be written to ``target``."""
    if target.is_dir():
        raise TransferError(target, "is a folder — name a file in it")
    if not target.parent.is_dir():
        raise TransferError(target.parent, "there is no such folder — make it, or choose another")
    if not os.access(target.parent, os.W_OK):
        raise TransferError(target.parent, _CURES[errno.EACCES])
    if target.exists() and not force:
        raise TransferError(target, "is there already — choose another name")
