"""Models: the list to choose from, and the download of one.

A download runs on its own thread and continues when the writer opens another story. A partial download is
kept, and the next download of the same model continues from there.
"""

from __future__ import annotations

from concurrent.futures import Future, wait
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from srbwriter import launch
from srbwriter.config import keys, remember
from srbwriter.engine import types as engine_types
from srbwriter.models import (
    DownloadCancelled,
    Machine,
    ModelsError,
    RecommendedModel,
    Suitability,
    local_models,
    memory,
    read_recommended,
    recommend,
    size_words,
)
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.write.status import shortened

if TYPE_CHECKING:
    from srbwriter.models import LocalModel
    from srbwriter.tui.app import App
    from srbwriter.tui.options import Preferences
    from srbwriter.tui.write.screen import WriteScreen

_NAME_CELLS = 24
_END_SECONDS = 2.0  # the thread ends at once, unless it waits for an answer of the hub
_AGAIN = "again"  # the entry that loads a model once more


def trouble_words(error: Exception | None) -> str:
    """Say that loading was stopped, or that the model cannot be loaded."""
    stopped = isinstance(error, engine_types.Cancelled)
    return "Loading the model was stopped" if stopped else "The model cannot be loaded"


async def choose_model(screen: WriteScreen) -> None:
    """Let the writer load a local model, fetch a recommended one, or try one again that does not load."""
    session, app = screen.session, screen.app
    failed = session.engine_error is not None and session.engine_state == "FAILED"
    title = f"{trouble_words(session.engine_error)}\n{session.engine_error}" if failed else "Models"
    value = await app.ask(ModelPicker(app.preferences, app.fetch, title, failed))
    if value == _AGAIN:
        session.load_again()
    elif isinstance(value, Path):
        session.load_model(value)
    elif isinstance(value, RecommendedModel):
        if app.fetch.model is None:
            screen.attend(app.fetch.run(app, value), app)
        elif app.fetch.model == value:
            app.fetch.cancel()
        else:
            name = app.fetch.model.name
            screen.notify(f"{name} is being fetched. Wait for it, or choose it in the list to stop it.")


class ModelPicker(Picker):
    """All local models, then recommended ones that fit and are not here yet: the one for this machine first,
    those that would be slow last. Those for GPUs follow once these are known."""

    def __init__(self, preferences: Preferences, fetch: ModelFetch, title: str, failed: bool) -> None:
        self._preferences, self._fetch, self._failed = preferences, fetch, failed
        title += "\nOne of yours is loaded for now; another is fetched and kept."
        super().__init__(title, self._choices_on(Machine(memory())))

    def _choices_on(self, machine: Machine) -> list[Choice]:
        found = [Choice(_AGAIN, "Try again", "loads the same model once more")] if self._failed else []
        found += [Choice(model.path, model.name, self._about(model)) for model in local_models()]
        best, others = recommend(read_recommended().models, machine)
        rows = [row for row in others if row.verdict in ("fits", "slow")]
        for row in [best, *rows] if best is not None else rows:
            if not row.model.path.exists():
                about = self._about_missing(row, for_this_machine=row is best)
                found.append(Choice(row.model, row.model.name, about))
        return found

    def _about(self, model: LocalModel) -> str:
        if model.header is None:
            return f"cannot be used: {model.problem}"
        need = launch.model_need(self._preferences, model.header, model.size)
        verdict = need.verdict(memory())
        return f"{size_words(model.size)}, needs {size_words(need.total)} of memory: {verdict}; {model.place}"

    def _about_missing(self, row: Suitability, *, for_this_machine: bool) -> str:
        model = row.model
        size = size_words(model.size) if model.size else "a file"
        if model == self._fetch.model:
            return f"{size}, being fetched now; enter stops that"
        advice = "; for this machine" if for_this_machine else "; slow here" if row.verdict == "slow" else ""
        return f"{size} to fetch, {model.kind}{advice}. {model.note}"

    def on_mount(self) -> None:
        self.run_worker(self._look_for_gpus, thread=True)

    def _look_for_gpus(self) -> None:
        self.call_later(self.replace, self._choices_on(launch.this_machine(self._preferences)))


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
        # Nothing ends a round of a model that has failed.
        await app.until(
            lambda: (
                result.done()
                and (
                    result.exception() is not None
                    or not app.write_screen.writing
                    or app.session.engine_state == "FAILED"
                )
            )
        )
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
        name = shortened(self.model.name, _NAME_CELLS)
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
