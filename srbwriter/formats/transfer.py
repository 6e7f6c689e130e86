"""Import and export of stories, for the app and the command line.

The result is written to a hidden temporary file beside the target, which is renamed at the very end. A
transfer can therefore be cancelled or killed at any moment: the target is either the old file or the complete
new one. Reading and writing large files holds the interpreter lock for long moments, so the app runs a
transfer in a fresh interpreter (:class:`TransferProcess`), which can be killed at once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

from srbwriter import formats, paths
from srbwriter.formats import folder as folders
from srbwriter.formats.opening import FormatError
from srbwriter.story import library
from srbwriter.story.draft import StoryDraft, rows_of
from srbwriter.story.journal import in_brief, place, remove, saving, write_story
from srbwriter.story.model import DamagedStory, StoryError
from srbwriter.story.story import Story

log = logging.getLogger(__name__)

OnProgress: TypeAlias = "Callable[[float], object]"
"""Called with the finished share of a transfer, from 0 to 1; cancels it by raising."""

_PARSED = 0.6  # share of an import when the file is parsed


class TransferError(StoryError):
    """A file cannot be read or written; the message names it and a remedy."""


class Stopped(StoryError):
    """The transfer was cancelled; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Landed:
    """A finished transfer: the result's path, the story's title, and notices for the writer."""

    path: Path
    title: str
    notices: tuple[str, ...] = ()


def rendered(source: Path, form: str, progress: OnProgress = lambda share: None) -> tuple[str, bytes]:
    """Return title and bytes of the story in ``source``, in the format called ``form``.

    The story may be open for writing elsewhere. Raises NotAStory or DamagedStory.
    """
    with Story.open(source, readonly=True) as story:
        if story.damage:
            raise DamagedStory(story.file, story.damage)
        progress(0.1)
        draft = story.draft()
    progress(0.75)
    return draft.title, formats.write(draft, form)


def _beside(path: Path) -> Path:
    """Return an unused hidden path in the folder of ``path``."""
    return path.with_name(f".{paths.shortened(path.name, 80)}.{uuid4().hex[:8]}.part")


def _drop(part: Path) -> None:
    """Remove a temporary file if it exists."""
    with contextlib.suppress(OSError):
        remove(part)


@dataclass(slots=True)
class Export:
    """Export the story ``source`` to the file ``target`` in the format called ``form``.

    An existing target is replaced only with ``force``.
    """

    source: Path
    target: Path
    form: str
    force: bool = False
    part: Path = field(init=False)

    def __post_init__(self) -> None:
        self.part = _beside(self.target)

    def run(self, progress: OnProgress = lambda share: None) -> Landed:
        """Export. Raises StoryError; then nothing is left."""
        try:
            if self.target.exists() and not (self.force and self.target.is_file()):
                raise TransferError(f"{self.target}: is there already — choose another name")
            title, data = rendered(self.source, self.form, progress)
            paths.write_durable(self.part, data)
            progress(1)
            paths.replace_durably(self.part, self.target)
        except OSError as error:
            raise TransferError(f"{self.target}: {in_brief(error)}") from error
        finally:
            _drop(self.part)
        return Landed(self.target, title)


@dataclass(slots=True)
class Import:
    """Import ``file`` as a new story in ``folder``, or as the story file ``target`` if that is given.

    ``data`` is read instead of the file, whose name is then only for messages. ``title`` replaces the file's
    own title; by default it is the file's name. ``encoding`` is for a text not in UTF, ``form`` the format to
    read the file as, instead of the detected one. With ``as_one`` a folder, or the file with ``more``
    files, becomes one story; without it only the project folder of a writing program does.
    """

    file: Path
    folder: Path
    target: Path | None = None
    title: str = ""
    data: bytes | None = None
    encoding: str = ""
    form: str = ""
    as_one: bool = False
    more: tuple[Path, ...] = ()
    part: Path = field(init=False)

    def __post_init__(self) -> None:
        self.part = _beside(self.target or self.folder / "import")

    def run(self, progress: OnProgress = lambda share: None) -> Landed:
        """Import. Raises StoryError or FormatError; then nothing is left."""
        progress(0)
        draft = self._draft(lambda share: progress(share * _PARSED))
        progress(_PARSED)
        titles = (self.title, draft.title, self.file.stem if self.data is None else "Imported story")
        title = next(filter(None, (" ".join(title.split()) for title in titles)), "")
        try:
            with saving(self.target or library.free_path(self.folder, title)):
                paths.make_folder(self.part.parent)
                write_story(self.part, rows_of(replace(draft, title=title)))
                progress(1)
                while True:
                    target = self.target or library.free_path(self.folder, title)
                    try:
                        place(self.part, target)
                        return Landed(target, title, tuple(draft.notices))
                    except FileExistsError:  # another process was faster; try the next name
                        if self.target is not None:
                            raise
        finally:
            _drop(self.part)

    def _draft(self, progress: OnProgress) -> StoryDraft:
        chosen = {"encoding": self.encoding, "format_name": self.form}
        try:
            if self.more or (self.data is None and self.file.is_dir()):
                opened = folders.open_files((self.file, *self.more))
                return formats.read_folder(opened, progress, as_one=self.as_one, **chosen)
            return formats.read(self._read(), str(self.file), **chosen)
        except OSError as error:
            raise TransferError(f"{error.filename or self.file}: {in_brief(error)}") from error

    def _read(self) -> bytes:
        if any(form.name == self.form for form in formats.FOLDERS):
            raise TransferError(f"{self.file}: is no folder, as a story in {self.form} is — name the folder")
        if self.data is not None:
            return self.data
        special = self.file.exists() and not self.file.is_file()
        if special and not self.file.is_relative_to("/dev/fd"):  # reading could wait forever
            raise TransferError(f"{self.file}: is no file — cat {self.file} | srbwriter import -")
        return self.file.read_bytes()


# -- in a process of its own --------------------------------------------------------------------------


class TransferProcess:
    """A transfer in another process, which begins at once. Only :meth:`wait` waits; any thread may call it.

    >>> work = TransferProcess(Export(story, target, "markdown"))
    """

    def __init__(self, transfer: Export | Import) -> None:
        self._transfer = transfer
        self._process: subprocess.Popen[bytes] | None = None
        self._cancelled = False
        self._outcome: Landed | Exception | None = None
        self._thread = threading.Thread(target=self._run, name="srbwriter-transfer", daemon=True)
        self.share = 0.0
        """The finished share of the work, from 0 to 1."""
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether it is finished, has failed, or was cancelled and has removed its temporary file."""
        return self._outcome is not None

    def cancel(self) -> bool:
        """Cancel the transfer; return False if it is over."""
        if self.over:
            return False
        self._cancelled = True
        if self._process is not None:
            self._process.kill()
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds for the end; return whether it came."""
        self._thread.join(timeout)
        return self.over

    def result(self) -> Landed:
        """Return the result of a transfer that is over. Raises Stopped, another StoryError, or OSError."""
        assert self._outcome is not None
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def _run(self) -> None:
        try:
            with _child() as process:
                self._outcome = self._follow(process)
        except Exception as error:
            _drop(self._transfer.part)
            self._outcome = Stopped("stopped") if self._cancelled else error

    def _follow(self, process: subprocess.Popen[bytes]) -> Landed:
        """Read the child's messages: shares, then a result or a refusal."""
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._process = process
        if self._cancelled:
            process.kill()
        with contextlib.suppress(BrokenPipeError):  # it ended early: reading fails as well
            process.stdin.write(pickle.dumps(self._transfer))
            process.stdin.close()
        while True:
            try:
                message = pickle.load(process.stdout)
            except (EOFError, pickle.UnpicklingError):
                process.kill()
                if not self._cancelled:
                    log.error("a transfer failed: %s", process.stderr.read().decode("utf-8", "replace"))
                raise TransferError("it ended before its time; the log says more") from None
            if isinstance(message, Landed):
                return message
            if isinstance(message, str):
                raise TransferError(message)
            self.share = message


def _child() -> subprocess.Popen[bytes]:
    """Start a process that waits for a transfer. Raises OSError."""
    # It imports the same modules as this process, and none from its working directory; it has a
    # session of its own, so that ctrl+c in the terminal does not reach it.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-P", "-c", f"from {__name__} import serve_parent; serve_parent()"]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
    )


def serve_parent() -> None:
    """Run in the other process: read a transfer from standard input, report on standard output."""
    with contextlib.suppress(OSError):
        os.nice(5)  # keys and branches come first

    def send(message: Landed | str | float) -> None:
        pickle.dump(message, sys.stdout.buffer)
        sys.stdout.buffer.flush()

    transfer: Export | Import = pickle.load(sys.stdin.buffer)  # the parent chose the temporary file's name
    try:
        send(transfer.run(lambda share: send(float(share))))
    except (StoryError, FormatError, OSError) as error:
        send(str(error))
