"""The export or import that is under way: begun by a command, watched by the pump, stopped by escape.

The work is done in a process of its own; here is what the writer sees of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from srbwriter.tui import status

if TYPE_CHECKING:
    from srbwriter.story.transfer import Landed, Transfer, TransferProcess
    from srbwriter.tui.write_screen import WriteScreen

_END_SECONDS = 5.0  # a killed process and its traces are gone long before
_NAME = 14  # characters of a file's name, at least
_BESIDE = 66  # cells of the line that are needed for the rest


@dataclass(frozen=True, slots=True)
class _Work:
    verb: str
    name: str
    aside: TransferProcess
    then: Callable[[Landed], object]
    leaves: bool


class Transfers:
    """One export or import at a time."""

    def __init__(self, screen: WriteScreen) -> None:
        self._screen = screen
        self._work: _Work | None = None
        self._stopping = self._warned = False

    @property
    def busy(self) -> bool:
        """True from the beginning until the writer has been told how it ended."""
        return self._work is not None

    def begin(
        self, verb: str, name: str, transfer: Transfer, then: Callable[[Landed], object], leaves: bool = False
    ) -> None:
        """Begin a transfer, unless another is under way.

        Args:
            verb: "export" or "import".
            name: of the file.
            transfer: what is to be done.
            then: told what came of it.
            leaves: ``then`` leaves the write screen, and waits until nothing lies on it and nobody types.
        """
        if self._work is not None:
            self._screen.notify(f"{self._what()} is still under way; esc stops it.")
            return
        from srbwriter.story.transfer import TransferProcess  # with all formats: not before the first screen

        self._work = _Work(verb, name, TransferProcess(transfer).start(), then, leaves)
        self._stopping = self._warned = False
        self._screen.flush_slowly()

    def told(self) -> tuple[str, ...]:
        """What the status line says of it, in parts; none if there is nothing to say."""
        work = self._work
        if work is None:
            return ()
        if self._stopping:
            return (f"stopping the {work.verb}",)
        most = max(_NAME, self._screen.size.width - _BESIDE)
        name = work.name if len(work.name) <= most else f"{work.name[: most - 1]}…"
        share = work.aside.share
        return status.progress(f"{work.verb}ing {name}", share, status.time_left(work.aside.seconds, share))

    def cancel(self) -> bool:
        """Give it up; False if there is nothing to give up."""
        if self._work is None or self._work.aside.over:
            return False
        self._stopping = self._work.aside.cancel()
        self._screen.flush_slowly()
        return True

    def may_leave(self) -> bool:
        """False, once, while something is under way that would be given up; the writer is told."""
        if self._work is None or self._warned:
            return True
        self._warned = True
        self._screen.notify(f"{self._what()} is still under way. Leaving once more gives it up.")
        return False

    def end(self) -> None:
        """The program ends: give it up and wait until its traces are gone."""
        if self._work is not None:
            self._work.aside.cancel()
            self._work.aside.wait(_END_SECONDS)

    def watch(self) -> None:
        """Say how it ended, once it has. Called by the pump."""
        work = self._work
        if work is None or not work.aside.over:
            return
        app = self._screen.app
        if work.leaves and not self._stopping and not (app.screen is self._screen and app.writer_rests):
            return
        self._screen.guarded(lambda: self._tell(work))

    def _tell(self, work: _Work) -> None:
        from srbwriter.story.transfer import Stopped

        what, self._work = self._what(), None
        try:
            landed = work.aside.result()
        except Stopped:
            self._screen.notify(f"{what} was stopped; nothing was written.")
        else:
            work.then(landed)

    def _what(self) -> str:
        return f"The {self._work.verb} of {self._work.name}" if self._work is not None else ""
