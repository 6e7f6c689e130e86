"""The running export or import: started by a command, stopped by escape.

The work runs in a separate process; this module shows its progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui.write.status import progress, shortened

if TYPE_CHECKING:
    from srbwriter.formats.transfer import Export, Import, Landed, TransferProcess
    from srbwriter.tui.app import App

_END_SECONDS = 5.0  # killing the process and removing its files takes less


class Transfers:
    """At most one export or import at a time."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._process: TransferProcess | None = None
        self._verb = self._name = ""
        self._stopping = self._warned = False

    @property
    def busy(self) -> bool:
        """True from the start until the result is used."""
        return self._process is not None

    async def run(
        self, verb: str, name: str, transfer: Export | Import, leaves: bool = False
    ) -> Landed | None:
        """Do a transfer and return its result; None if it was stopped, or another one is running.

        Args:
            verb: "export" or "import".
            name: the file's name.
            transfer: the work.
            leaves: the result leaves the write screen, so it waits until no dialog is open and no one types.
        """
        if self.busy:
            self._app.notify(f"{self._what} is still running; esc stops it.")
            return None
        from srbwriter.formats.transfer import Stopped, TransferProcess  # all formats, which slows the start

        self._process = process = TransferProcess(transfer)
        self._verb, self._name = verb, shortened(name)
        self._stopping = self._warned = False
        app = self._app
        try:
            await app.until(lambda: process.over)
            await app.until(
                lambda: self._stopping or not leaves or (app.write_screen.on_top and app.writer_rests)
            )
            return process.result()
        except Stopped:
            app.notify(f"{self._what} was stopped; nothing was written.")
            return None
        finally:
            self._process = None

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
