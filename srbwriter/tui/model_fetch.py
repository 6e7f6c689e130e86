"""The download of a model.

It runs on its own thread and continues when the writer opens another story. A partial download is kept, and
the next download of the same model continues from there.
"""

from __future__ import annotations

from concurrent.futures import Future, wait
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from srbwriter.config import keys, remember
from srbwriter.models.files import DownloadCancelled, ModelsError
from srbwriter.tui.write.status import shortened

if TYPE_CHECKING:
    from srbwriter.models.recommended import RecommendedModel
    from srbwriter.tui.app import App

_END_SECONDS = 2.0  # the thread ends at once, unless it waits for an answer of the hub


class ModelFetch:
    """At most one download at a time; the downloaded model becomes the current one."""

    def __init__(self) -> None:
        self.model: RecommendedModel | None = None  # that is being downloaded
        self.result: Future[Path] = Future()
        self._stopping = False
        self._done = self._total = 0  # bytes; a total of 0 is unknown

    async def run(self, app: App, model: RecommendedModel) -> None:
        """Download ``model``, use it when no branch is running, and keep it once it has been loaded."""
        self.model, self.result = model, Future()
        self._stopping, self._total = False, 0
        name, result = model.name, self.result
        Thread(target=self._download, args=(model, result), name="srbwriter-fetch", daemon=True).start()

        def may_end() -> bool:
            idle = not app.write_screen.writing or app.session.engine_state == "FAILED"  # which ends no round
            return idle or result.exception() is not None

        await app.until(lambda: result.done() and may_end())
        self.model = None
        try:
            file = result.result()
        except DownloadCancelled:
            again = app.way_to("model")
            app.notify(
                f"The download of {name} was stopped. The downloaded part is kept; {again} continues it."
            )
        except ModelsError as error:
            app.notify(f"{name} could not be fetched. {error}", severity="error")
        else:
            app.session.load_model(file)
            await app.until(lambda: app.session.engine_state not in ("INIT", "LOADING"))
            loaded = app.session.model
            if loaded is not None and Path(loaded.path) == file:  # an error of loading is shown elsewhere
                self._keep(app, name, file)

    def _download(self, model: RecommendedModel, result: Future[Path]) -> None:
        from srbwriter.models import pull  # imports an HTTP client, which would delay a key

        try:
            result.set_result(pull.fetch(model.pull_name, self._progress))
        except BaseException as error:
            result.set_exception(error)

    def _progress(self, name: str, done: int, total: int, /) -> None:
        if self._stopping:
            raise DownloadCancelled("the download was stopped")
        self._done, self._total = done, total

    def describe(self) -> str:
        """Return the status line's text about the download; empty without one."""
        if self.model is None:
            return ""
        name = shortened(self.model.name)
        if self.result.done():
            return f"{name} is here; it is used when these branches have ended"
        if self._stopping:
            return f"stopping the download of {name}"
        if self._done >= self._total:
            return f"checking {name}" if self._total else f"looking for {name}"
        return f"fetching {name} {self._done / self._total:.0%}"

    def cancel(self) -> bool:
        """Stop the download; return False if there is none."""
        self._stopping = self.model is not None and not self.result.done()
        return self._stopping

    def end(self) -> None:
        """Stop the download, because the program ends."""
        if self.cancel():
            wait([self.result], _END_SECONDS)

    def _keep(self, app: App, name: str, file: Path) -> None:
        """Make the model the default for later runs."""
        preferences = app.preferences
        remember(preferences.table, {keys.MODEL: file})
        named = [
            key.name
            for key in (keys.MODEL, keys.CONNECT)
            if preferences.source(key) in ("environment", "file")
        ]
        until = f"until you leave, since {named[0]} in your settings names another" if named else ""
        app.notify(
            f"{name} writes {until or 'from now on'}. {app.way_to('generate')} writes branches with it."
        )
