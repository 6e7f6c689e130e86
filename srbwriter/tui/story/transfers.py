"""The running export or import: started by a command, watched by the pump, stopped by escape.

The work runs in a separate process; this module shows its progress and result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from srbwriter.tui.write import status

if TYPE_CHECKING:
    from srbwriter.formats.transfer import Export, Import, Landed, TransferProcess
    from srbwriter.tui.app import App

_END_SECONDS = 5.0  # killing the process and removing its files takes less
_NAME = 14  # least number of characters shown of a file name
_BESIDE = 66  # cells needed for the rest of the line


@dataclass(frozen=True, slots=True)
class _Work:
    verb: str
    name: str
    aside: TransferProcess
    then: Callable[[Landed], object]
    leaves: bool


class Transfers:
    """At most one export or import at a time."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._work: _Work | None = None
        self._stopping = self._warned = False

    @property
    def busy(self) -> bool:
        """True from the start until the result has been shown."""
        return self._work is not None

    def begin(
        self,
        verb: str,
        name: str,
        transfer: Export | Import,
        then: Callable[[Landed], object],
        leaves: bool = False,
    ) -> None:
        """Start a transfer, unless another one is running.

        Args:
            verb: "export" or "import".
            name: the file's name.
            transfer: the work.
            then: called with the result.
            leaves: ``then`` leaves the write screen, so it waits until no dialog is open and no one types.
        """
        if self._work is not None:
            self._app.notify(f"{self._what()} is still running; esc stops it.")
            return
        from srbwriter.formats.transfer import TransferProcess  # imports all formats, which slows the start

        self._work = _Work(verb, name, TransferProcess(transfer).start(), then, leaves)
        self._stopping = self._warned = False

    def status_parts(self) -> tuple[str, ...]:
        """Return the parts for the status line; empty if nothing is running."""
        work = self._work
        if work is None:
            return ()
        if self._stopping:
            return (f"stopping the {work.verb}",)
        most = max(_NAME, self._app.size.width - _BESIDE)
        name = work.name if len(work.name) <= most else f"{work.name[: most - 1]}…"
        share = work.aside.share
        return status.progress(f"{work.verb}ing {name}", share, status.time_left(work.aside.seconds, share))

    def cancel(self) -> bool:
        """Stop the transfer; return False if there is none."""
        if self._work is None or self._work.aside.over:
            return False
        self._stopping = self._work.aside.cancel()
        return True

    def may_leave(self) -> bool:
        """Return False once while a transfer is running, and warn the writer."""
        if self._work is None or self._warned:
            return True
        self._warned = True
        self._app.notify(f"{self._what()} is still running. Quit again to stop it.")
        return False

    def end(self) -> None:
        """Stop the transfer and wait until its temporary files are removed, because the program ends."""
        if self._work is not None:
            self._work.aside.cancel()
            self._work.aside.wait(_END_SECONDS)

    def watch(self) -> None:
        """Report the result, once there is one. Called by the pump."""
        work = self._work
        if work is None or not work.aside.over:
            return
        desk, app = self._app.write_screen, self._app
        if work.leaves and not self._stopping and not (desk.on_top and app.writer_rests):
            return
        desk.guarded(lambda: self._tell(work))

    def _tell(self, work: _Work) -> None:
        from srbwriter.formats.transfer import Stopped

        what, self._work = self._what(), None
        try:
            landed = work.aside.result()
        except Stopped:
            self._app.notify(f"{what} was stopped; nothing was written.")
        else:
            work.then(landed)

    def _what(self) -> str:
        return f"The {self._work.verb} of {self._work.name}" if self._work is not None else ""
