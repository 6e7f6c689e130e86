"""The running export or import: started by a command, watched by the pump, stopped by escape.

The work runs in a separate process; this module shows its progress and result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from srbwriter.tui.write.status import progress, shortened

if TYPE_CHECKING:
    from srbwriter.formats.transfer import Export, Import, Landed, TransferProcess
    from srbwriter.tui.app import App

_END_SECONDS = 5.0  # killing the process and removing its files takes less
_NAME_CELLS = 24  # shown of a file name


class Transfers:
    """At most one export or import at a time."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._process: TransferProcess | None = None
        self._verb = self._name = ""
        self._then: Callable[[Landed], object] = lambda landed: None
        self._stopping = self._warned = self._leaves = False

    @property
    def busy(self) -> bool:
        """True from the start until the result has been shown."""
        return self._process is not None

    def begin(
        self, verb: str, name: str, transfer: Export | Import, then: Callable[[Landed], object],
        leaves: bool = False,
    ) -> None:  # fmt: skip
        """Start a transfer, unless another one is running.

        Args:
            verb: "export" or "import".
            name: the file's name.
            transfer: the work.
            then: called with the result.
            leaves: ``then`` leaves the write screen, so it waits until no dialog is open and no one types.
        """
        if self.busy:
            self._app.notify(f"{self._what} is still running; esc stops it.")
            return
        from srbwriter.formats.transfer import TransferProcess  # imports all formats, which slows the start

        self._process = TransferProcess(transfer)
        self._verb, self._name, self._then, self._leaves = verb, shortened(name, _NAME_CELLS), then, leaves
        self._stopping = self._warned = False

    @property
    def _what(self) -> str:
        return f"The {self._verb} of {self._name}"

    def describe(self) -> str:
        """Return the status line's text about the transfer; empty if none is running."""
        if self._process is None:
            return ""
        if self._stopping:
            return f"stopping the {self._verb}"
        return progress(f"{self._verb}ing {self._name}", self._process.share)

    def cancel(self) -> bool:
        """Stop the transfer; return False if there is none."""
        if self._process is None or self._process.over:
            return False
        self._stopping = self._process.cancel()
        return True

    def may_leave(self) -> bool:
        """Return False once while a transfer is running, and warn the writer."""
        if not self.busy or self._warned:
            return True
        self._warned = True
        self._app.notify(f"{self._what} is still running. Quit again to stop it.")
        return False

    def end(self) -> None:
        """Stop the transfer and wait until its temporary files are removed, because the program ends."""
        if self._process is not None:
            self._process.cancel()
            self._process.wait(_END_SECONDS)

    def watch(self) -> None:
        """Report the result, once there is one. Called by the pump."""
        desk, process = self._app.write_screen, self._process
        waits = self._leaves and not self._stopping and not (desk.on_top and self._app.writer_rests)
        if process is not None and process.over and not waits:
            self._process = None
            desk.guarded(lambda: self._tell(process))

    def _tell(self, process: TransferProcess) -> None:
        from srbwriter.formats.transfer import Stopped

        try:
            landed = process.result()
        except Stopped:
            self._app.notify(f"{self._what} was stopped; nothing was written.")
        else:
            self._then(landed)
