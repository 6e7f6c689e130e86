"""A story out into a file, and a file into a story: the work, the same for every face.

It is done into a file of its own beside the place it is meant for, under a name that nobody looks for; that
file gets its real name at the very end. So the work can be broken off or killed at any moment, and what lies
at the real place is either what lay there before or the whole of the new.

Reading and writing large files holds the interpreter for long moments, on whatever thread it is done. A face
that must not stand still has it done by a process of its own (:class:`TransferProcess`), which can be killed
at once. Both ends of the pipe between the two are in this file.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Protocol, Self
from uuid import uuid4

from srbwriter import paths
from srbwriter.story import folders, formats, library
from srbwriter.story.connection import in_brief, making, remove
from srbwriter.story.formats.base import FormatError
from srbwriter.story.model import (
    DamagedStory,
    DraftError,
    NotAStory,
    OnProgress,
    StoryDraft,
    StoryError,
    as_list,
    no_progress,
    within,
)
from srbwriter.story.store import SUFFIX
from srbwriter.story.story import Story

_OPENED, _FILLED = 0.1, 0.75  # of an export: the story is open, its nodes are read; the rest is the format's
_STEP = 0.005  # share of the work between two messages of the other process
_NICE = 5  # keys and branches come first
_PARSED = 0.3  # of an import: the file is understood; the rest is the new story's

log = logging.getLogger(__name__)

_STORY = "is a story — open it; it needs no import"
_NO_STORY = "has the name of a story and is none — if it is a text, give it a name in .txt"


class TransferError(StoryError):
    """A file cannot be read or written. Names it, and says what can be done."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")

    @classmethod
    def of(cls, path: Path, error: OSError) -> TransferError:
        """What the system said about ``path``, in words."""
        return cls(path, in_brief(error))


@dataclass(frozen=True, slots=True)
class Made:
    """What was made, before it is at its place: the story's title, and what the writer should be told."""

    title: str
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed(Made):
    """A transfer that is done, and where the result lies."""

    path: Path


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
        with contextlib.suppress(OSError):
            transfer.drop()
        raise


def rendered(source: Path, form: str, progress: OnProgress = no_progress) -> tuple[str, bytes]:
    """Title and bytes of the story in ``source``, in the format called ``form``.

    The story may be open for writing elsewhere. Raises NotAStory, DamagedStory or DraftError.
    """
    with Story.open(source, readonly=True) as story:
        if story.damage is not None:
            raise DamagedStory(story.file, str(story.damage))
        progress(_OPENED)
        draft = story.to_draft(within(progress, _OPENED, _FILLED))
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
        return Landed(made.title, made.notices, path=self.target)

    def drop(self) -> None:
        self.part.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Import:
    """What is in ``file`` becomes a new story in ``folder``, or the story file ``target`` if that is given.

    ``data`` is what to read instead of the file, whose name then is only for messages. ``title`` takes the
    place of the file's own, and ``untitled`` is for a file without one; the file's name if empty.
    ``encoding`` is that of a text which is not in UTF, ``form`` the name of the format to read the file as,
    whatever it looks like. With ``as_one`` a folder, or the file with ``more`` files, becomes one story;
    without it only a folder that is a project of a program for writing does.
    """

    file: Path
    folder: Path
    target: Path | None = None
    title: str = ""
    data: bytes | None = None
    untitled: str = ""
    encoding: str = ""
    form: str = ""
    as_one: bool = False
    more: tuple[Path, ...] = ()
    part: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "part", _beside(self.target or self.folder / "import"))

    def make(self, progress: OnProgress = no_progress) -> Made:
        if self.target is not None and self.target.exists():
            raise NotAStory(self.target, "is already there — choose another name, or open it")
        draft = self._draft(within(progress, 0, _PARSED))
        progress(_PARSED)
        notices = as_list(draft.meta.pop("notices", []))
        titles = (self.title, draft.title, self.untitled, self.file.stem)
        title = next(filter(None, (" ".join(title.split()) for title in titles)), "")
        with making(self.target or library.free_path(self.folder, title)):
            Story.from_draft(self.part, replace(draft, title=title), within(progress, _PARSED, 1)).close()
        progress(1)
        return Made(title, tuple(map(str, notices)))

    def _draft(self, progress: OnProgress) -> StoryDraft:
        if self.more or (self.data is None and self.file.is_dir()):
            return self._folder_draft(progress)
        if any(form.name == self.form for form in formats.FOLDERS):
            raise TransferError(self.file, f"is no folder, as a story in {self.form} is — name the folder")
        return formats.read(
            self._read(), str(self.file), progress, encoding=self.encoding, format_name=self.form
        )

    def _folder_draft(self, progress: OnProgress) -> StoryDraft:
        try:
            if self.more:
                opened = folders.open_files((self.file, *self.more))
            else:
                opened = folders.open_folder(self.file)
            return formats.read_folder(
                opened, progress, as_one=self.as_one, encoding=self.encoding, format_name=self.form
            )
        except OSError as error:
            raise TransferError.of(Path(error.filename or self.file), error) from error

    def _read(self) -> bytes:
        if self.data is not None:
            return self.data
        if self.file.is_char_device() or self.file.is_block_device() or self.file.is_socket():
            raise TransferError(self.file, f"is {_kind_of(self.file)} — name a file")
        if self.file.is_fifo() and not self.file.is_relative_to("/dev/fd"):  # it may never be written to
            raise TransferError(self.file, f"is a pipe — cat {self.file} | srbwriter import -")
        if self.file.suffix == SUFFIX and self.file.is_file():  # not opened: see srbwriter.story.lock
            raise TransferError(self.file, _STORY if library.is_story(self.file) else _NO_STORY)
        try:
            return self.file.read_bytes()
        except OSError as error:
            raise TransferError.of(self.file, error) from error

    def land(self, made: Made) -> Landed:
        if self.target is not None:
            return Landed(made.title, made.notices, path=library.move(self.part, self.target))
        while True:
            try:
                found = library.move(self.part, library.free_path(self.folder, made.title))
            except library.Taken:
                continue  # somebody was faster; the next name
            return Landed(made.title, made.notices, path=found)

    def drop(self) -> None:
        remove(self.part)
        self.part.with_name(f".{self.part.name}.lock").unlink(missing_ok=True)


def _kind_of(path: Path) -> str:
    """What lies at ``path`` and is neither a file nor a folder, in words."""
    if path.is_fifo():
        return "a pipe"
    return "a socket" if path.is_socket() else "a device"


def check_target(target: Path, *, force: bool) -> None:
    """Raise TransferError, before any work, if nothing can be written to ``target``."""
    if target.is_dir():
        raise TransferError(target, "is a folder — name a file in it")
    if target.exists() and not target.is_file():
        raise TransferError(target, f"is {_kind_of(target)} — name a file, or - for standard output")
    if not target.parent.is_dir():
        raise TransferError(target.parent, "there is no such folder — make it, or choose another")
    if not os.access(target.parent, os.W_OK):
        raise TransferError.of(target.parent, PermissionError(errno.EACCES, ""))
    if target.exists() and not force:
        raise TransferError(target, "is there already — choose another name")


# -- in a process of its own --------------------------------------------------------------------------


class TransferFailed(StoryError):
    """The other process could not do the work; the message is fit for a person."""


class Stopped(StoryError):
    """The transfer was cancelled; nothing was changed."""


class TransferProcess:
    """One transfer under way in another process. All of it may be used from any thread, and returns at once.

    >>> work = TransferProcess(Export(story, target, "markdown")).start()
    """

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._cancelled = self._landing = False
        self._share = 0.0
        self._started_at = time.monotonic()
        self._landed: Landed | None = None
        self._error: Exception | None = None
        self._over = threading.Event()

    @property
    def share(self) -> float:
        """How much of the work is done, from 0 to 1; never goes back."""
        return self._share

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._started_at

    @property
    def over(self) -> bool:
        """True once it is done, has failed, or was cancelled and has cleared away its traces."""
        return self._over.is_set()

    def start(self) -> Self:
        """Begin. To be called once."""
        self._started_at = time.monotonic()
        threading.Thread(target=self._run, name="srbwriter-transfer", daemon=True).start()
        return self

    def cancel(self) -> bool:
        """Give the transfer up; False if it is over, or so nearly that it goes to its end."""
        with self._lock:
            if self._landing or self.over:
                return False
            self._cancelled = True
            if self._process is not None:
                self._process.kill()
            return True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds for the end; False if it has not come."""
        return self._over.wait(timeout)

    def result(self) -> Landed:
        """What came of it, once it is over. Raises Stopped, another StoryError, or OSError."""
        if self._error is not None:
            raise self._error
        assert self._landed is not None, "not over yet"
        return self._landed

    def _run(self) -> None:
        try:
            made = self._make()
            with self._lock:
                if self._cancelled:
                    raise Stopped("stopped")
                self._landing = True
            self._landed = self._transfer.land(made)
        except Exception as error:
            self._error = Stopped("stopped") if self._cancelled else error
            with contextlib.suppress(OSError):
                self._transfer.drop()
        finally:
            self._over.set()

    def _make(self) -> Made:
        with self._lock:
            if self._cancelled:
                raise Stopped("stopped")
            process = self._process = _child()
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        with process:
            with contextlib.suppress(BrokenPipeError):  # it ended before it began: reading says so too
                process.stdin.write(pickle.dumps(self._transfer))
                process.stdin.close()
            try:
                return self._follow(process.stdout)
            except (EOFError, OSError, pickle.UnpicklingError) as error:
                process.kill()
                said = process.stderr.read().decode("utf-8", "replace").strip()
                if not self._cancelled:
                    log.error("the process of a transfer ended: %s %s", process.wait(), said)
                raise TransferFailed("it ended before its time; the log says more") from error

    def _follow(self, messages: IO[bytes]) -> Made:
        """Read what the child says until it says: shares, then a result, a refusal or [a defect]."""
        while True:
            message: float | Made | str | list[str] = pickle.load(messages)
            match message:
                case float() | int() as share:
                    self._share = max(self._share, share)
                case Made() as made:
                    return made
                case str() as refused:
                    raise TransferFailed(refused)
                case trace:
                    log.error("a transfer failed: %s", "".join(trace))
                    raise TransferFailed("it met a defect of srbwriter; the log says more")


def _child() -> subprocess.Popen[bytes]:
    """A process that waits for a transfer. Raises OSError if there can be none."""
    # It finds the same modules as this one, and none that happen to lie in the folder it is in.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", f"from {__name__} import serve_parent; serve_parent()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # keys of the terminal are not for it
    )


def serve_parent() -> None:
    """The other process: make what is asked for on the standard input, and report on the standard output."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    sent = -1.0

    def send(message: float | Made | str | list[str]) -> None:
        pickle.dump(message, sys.stdout.buffer)
        sys.stdout.buffer.flush()

    def progress(share: float) -> None:
        nonlocal sent
        if share - sent >= _STEP:
            sent = share
            send(float(share))

    transfer: Transfer = pickle.load(sys.stdin.buffer)  # the parent gave its part a name
    try:
        send(transfer.make(progress))
    except BrokenPipeError:  # the parent is gone, and nobody will want this
        transfer.drop()
    except (StoryError, DraftError, FormatError, OSError) as error:
        send(str(error))
    except Exception:
        send([traceback.format_exc()])
