"""The download of a model: started from the list of models, watched by the pump, used when complete.

The download runs on its own thread and continues when the writer opens another story. A partial download is
kept, and the next download of the same model continues from there.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, wait
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from srbwriter import launch
from srbwriter.config import keys
from srbwriter.models import Cancelled, ModelsError, RecommendedModel, Transfer, TransferMeter, size_words
from srbwriter.models.transfer import time_words
from srbwriter.tui.widgets.lines import key_name
from srbwriter.tui.write.status import shortened

if TYPE_CHECKING:
    from srbwriter.tui.program import Writer

_NAME_CELLS = 24
_END_SECONDS = 2.0  # the thread ends at once, unless it waits for an answer of the hub


class _Download:
    """One download of one model, started by the constructor."""

    def __init__(self, model: RecommendedModel) -> None:
        self.model = model
        self.stopping = False
        self.result: Future[Path] = Future()
        self._bytes = (0, 0)  # here, and in all; 0 is unknown
        self._meter = TransferMeter()
        Thread(target=self._run, name="srbwriter-fetch", daemon=True).start()

    @property
    def moment(self) -> Transfer:
        """The current progress. Call it from one thread only."""
        return self._meter.record(*self._bytes, time.monotonic())

    def stop(self) -> None:
        self.stopping = True

    def _run(self) -> None:
        from srbwriter.models import pull  # imports an HTTP client, which would delay a key

        try:
            self.result.set_result(pull.fetch_recommended(self.model, self._progress))
        except BaseException as error:
            self.result.set_exception(error)

    def _progress(self, name: str, done: int, total: int, /) -> None:
        if self.stopping:
            raise Cancelled("the download was stopped")
        self._bytes = done, total


class ModelFetch:
    """At most one download at a time; the downloaded model becomes the current one."""

    def __init__(self) -> None:
        self._download: _Download | None = None
        self._loading: tuple[str, Path] | None = None  # a fetched model that has not been loaded yet
        self._warned = False

    @property
    def model(self) -> RecommendedModel | None:
        """The model that is being downloaded."""
        return self._download.model if self._download is not None else None

    def begin(self, screen: Writer, model: RecommendedModel) -> None:
        """Download ``model``. Stop the download if it is already running; refuse if another one is."""
        if self._download is None:
            self._download, self._warned = _Download(model), False
        elif model == self.model:
            self.cancel(screen)
        else:
            name = self._download.model.name
            screen.notify(f"{name} is being fetched. Wait for it, or choose it in the list to stop it.")

    def describe(self) -> str:
        """Return the status line's text about the download; empty without one."""
        download = self._download
        if download is None:
            return ""
        name = shortened(download.model.name, _NAME_CELLS)
        if download.result.done():
            return f"{name} is here; it is used when these branches have ended"
        if download.stopping:
            return f"stopping the download of {name}"
        moment = download.moment
        if not moment.total:
            return f"looking for {name}"
        if moment.done >= moment.total:
            return f"checking {name}"
        words = [
            f"fetching {name} {moment.done / moment.total:.0%}"
        ]  # no progress bar, so that all of it fits into 80 columns
        if moment.seconds_left is not None:
            words.append(f"{time_words(moment.seconds_left)} left")
        if moment.speed is not None:
            words.append(f"{size_words(moment.speed)}/s")
        return ", ".join(words)

    def cancel(self, screen: Writer) -> bool:
        """Stop the download; return False if there is none."""
        if self._download is None or self._download.result.done():
            return False
        self._download.stop()
        return True

    def may_leave(self, screen: Writer) -> bool:
        """Return False once while a model is being downloaded, and warn the writer."""
        if self._download is None or self._download.result.done() or self._warned:
            return True
        self._warned = True
        name = self._download.model.name
        screen.notify(f"{name} is being fetched. Quit again to stop that; the downloaded part is kept.")
        return False

    def end(self) -> None:
        """Stop the download, because the program ends."""
        if self._download is not None:
            self._download.stop()
            wait([self._download.result], _END_SECONDS)

    def watch(self, screen: Writer) -> None:
        """Use the model once it is complete and no branch is running, or report why the download failed.

        Called by the pump.
        """
        download = self._download
        if download is not None and download.result.done():
            arrived = download.result.exception() is None
            writing = screen.writing and screen.session.engine_state != "FAILED"  # then nothing ends a round
            if not (arrived and writing):
                self._download = None
                screen.guarded(lambda: self._use(screen, download))
        if self._loading is not None:
            screen.guarded(lambda: self._keep(screen))

    def _use(self, screen: Writer, download: _Download) -> None:
        name = download.model.name
        try:
            file = download.result.result()
        except Cancelled:
            again = screen.app.way_to("model")
            screen.notify(
                f"The download of {name} was stopped. The downloaded part is kept; {again} continues it."
            )
        except ModelsError as error:
            screen.notify(f"{name} could not be fetched. {error}", severity="error")
        else:
            self._loading = name, file
            screen.session.load_model(file)

    def _keep(self, screen: Writer) -> None:
        """Make the model the default for later runs, once it has been loaded."""
        assert self._loading is not None
        (name, file), session = self._loading, screen.session
        if session.engine_state in ("INIT", "LOADING"):
            return
        self._loading = None
        if session.model is None or Path(session.model.path) != file:  # the error is shown elsewhere
            return
        preferences = screen.app.preferences
        launch.remember_model(preferences.table, file)
        named = [
            key.name
            for key in (keys.MODEL, *launch.REMOTE_KEYS, keys.CONNECT)
            if preferences.source(key) in ("environment", "file")
        ]
        until = (
            f"until you leave, since {named[0]} in your settings names another" if named else "from now on"
        )
        writes = " ".join(map(key_name, screen.app.anywhere("generate")[:1]))
        screen.notify(f"{name} writes {until}. {writes} writes branches with it.")
