"""A transfer in a process of its own, so that no face stands still for it.

Reading and writing large files holds the interpreter for long moments, on whatever thread it is done; and a
process can be killed at once, whatever it is doing. Both ends of the pipe between the two are in this file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
from typing import IO, Self

from srbwriter.story.formats.errors import FormatError
from srbwriter.story.model import DraftError, StoryError
from srbwriter.story.transfer import Landed, Made, Transfer

log = logging.getLogger(__name__)

_STEP = 0.005  # share of the work between two messages
_NICE = 5  # keys and branches come first


class TransferFailed(StoryError):
    """The other process could not do the work; the message is fit for a person."""


class Stopped(StoryError):
    """The transfer was cancelled; nothing was changed."""


class Aside:
    """One transfer under way. Everything here may be used from any thread, and returns at once.

    >>> aside = Aside(Export(story, target, "markdown")).start()
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
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # keys of the terminal are not for it
    )


def _carry_out(source: IO[bytes], answers: IO[bytes]) -> None:
    """The child's side: make what is asked for, and say how far it is. The parent gives it its name."""

    def say(message: float | Made | str | list[str]) -> None:
        pickle.dump(message, answers)
        answers.flush()

    told = -1.0

    def progress(share: float) -> None:
        nonlocal told
        if share - told >= _STEP:
            told = share
            say(float(share))

    transfer: Transfer = pickle.load(source)
    try:
        say(transfer.make(progress))
    except BrokenPipeError:  # the parent is gone, and nobody will want this
        transfer.drop()
    except (StoryError, DraftError, FormatError, OSError) as error:
        say(str(error))
    except Exception:
        say([traceback.format_exc()])


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    _carry_out(sys.stdin.buffer, sys.stdout.buffer)
