"""Models: the list to choose from, the download of one, and the offer of a larger one.

A download runs on its own thread and continues when the writer opens another story. A partial download is
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
from srbwriter.demo import bundled_model
from srbwriter.engine import types as engine_types
from srbwriter.models import (
    Cancelled,
    Machine,
    ModelsError,
    RecommendedModel,
    Suitability,
    local_models,
    memory,
    memory_budget,
    read_recommended,
    recommend,
    size_words,
)
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.write import hints
from srbwriter.tui.write.status import shortened

if TYPE_CHECKING:
    from srbwriter.config import Settings
    from srbwriter.models import LocalModel
    from srbwriter.tui.options import Preferences
    from srbwriter.tui.write.screen import WriteScreen

_NAME_CELLS = 24
_END_SECONDS = 2.0  # the thread ends at once, unless it waits for an answer of the hub
_AGAIN = "again"  # the entry that loads a model once more


def model_choices(preferences: Preferences, fetch: ModelFetch, machine: Machine) -> list[Choice]:
    """Return picker entries: all local models, then recommended models that fit and are not here yet.

    The one for this machine comes first. Those that would be slow are listed behind the others, and say so.
    """
    here = [Choice(model.path, model.name, _about(model, preferences)) for model in local_models()]
    best, others = recommend(read_recommended().models, machine)
    rows = [row for row in others if row.verdict in ("fits", "slow") and not row.model.is_here]
    if best is not None and not best.model.is_here:
        rows.insert(0, best)
    return here + [
        Choice(row.model, row.model.name, _about_missing(row, fetch, for_this_machine=row is best))
        for row in rows
    ]


def _about_missing(row: Suitability, fetch: ModelFetch, *, for_this_machine: bool) -> str:
    model = row.model
    size = size_words(model.size) if model.size else "a file"
    if model == fetch.model:
        return f"{size}, being fetched now; enter stops that"
    progress = f"{size} to fetch"
    if model.arrived:
        progress = f"{size_words(model.arrived)} of {size} are here, enter continues"
    advice = "; for this machine" if for_this_machine else "; slow here" if row.verdict == "slow" else ""
    return f"{progress}, {model.kind}{advice}. {model.note}"


def _about(model: LocalModel, preferences: Preferences) -> str:
    if model.header is None:
        return f"cannot be used: {model.problem}"
    need = launch.model_need(preferences, model.header, model.size)
    verdict = need.verdict(memory(), memory_budget())
    return f"{size_words(model.size)}, needs {size_words(need.total)} of memory: {verdict}; {model.place}"


class ModelPicker(Picker):
    """Local models and recommended ones, these for GPUs too once those are known."""

    def __init__(self, preferences: Preferences, fetch: ModelFetch, title: str, failed: bool) -> None:
        self._preferences, self._fetch, self._failed = preferences, fetch, failed
        foot = "enter loads one of yours for now, or fetches one and keeps it · {keys} · type to narrow"
        super().__init__(title, self._choices_on(Machine(memory(), memory_budget())), foot=foot)

    def _choices_on(self, machine: Machine) -> list[Choice]:
        again = [Choice(_AGAIN, "Try again", "loads the same model once more")] if self._failed else []
        return again + model_choices(self._preferences, self._fetch, machine)

    def on_mount(self) -> None:
        self.run_worker(self._measure, thread=True)

    def _measure(self) -> None:
        self.call_later(self.replace, self._choices_on(launch.this_machine(self._preferences)))


def choose_model(screen: WriteScreen) -> None:
    """Let the writer load a local model, fetch a recommended one, or try one again that does not load."""
    session, fetch = screen.session, screen.app.fetch

    def chosen(value: object) -> None:
        if value == _AGAIN:
            session.load_again()
        elif isinstance(value, Path):
            session.load_model(value)
        elif isinstance(value, RecommendedModel):
            fetch.begin(screen, value)

    failed = session.engine_error is not None and session.engine_state == "FAILED"
    title = f"{trouble_words(session.engine_error)}\n{session.engine_error}" if failed else "Models"
    screen.app.offer.withdraw()
    screen.ask(ModelPicker(screen.app.preferences, fetch, title, failed), chosen)


def trouble_words(error: Exception | None) -> str:
    """Say that loading was stopped, or that the model cannot be loaded."""
    stopped = isinstance(error, engine_types.Cancelled)
    return "Loading the model was stopped" if stopped else "The model cannot be loaded"


class _Download:
    """One download of one model, started by the constructor."""

    def __init__(self, model: RecommendedModel) -> None:
        self.model = model
        self.stopping = False
        self.result: Future[Path] = Future()
        self.done = self.total = 0  # bytes; a total of 0 is unknown
        self._begun = time.monotonic(), 0  # when the first bytes of this attempt came, and what was here
        Thread(target=self._run, name="srbwriter-fetch", daemon=True).start()

    @property
    def speed(self) -> float:
        """Bytes a second since it began."""
        begun, before = self._begun
        return (self.done - before) / max(time.monotonic() - begun, 1.0)

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
        if not self.total:
            self._begun = time.monotonic(), done
        self.done, self.total = done, total


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

    def begin(self, screen: WriteScreen, model: RecommendedModel) -> None:
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
        done, total, speed = download.done, download.total, download.speed
        if not total:
            return f"looking for {name}"
        if done >= total:
            return f"checking {name}"
        words = f"fetching {name} {done / total:.0%}"  # no progress bar: all of it fits into 80 columns
        if speed <= 0:
            return words
        return f"{words}, {(total - done) / speed / 60:.0f} min left, {size_words(speed)}/s"

    def cancel(self, screen: WriteScreen) -> bool:
        """Stop the download; return False if there is none."""
        if self._download is None or self._download.result.done():
            return False
        self._download.stop()
        return True

    def may_leave(self, screen: WriteScreen) -> bool:
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

    def watch(self, screen: WriteScreen) -> None:
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

    def _use(self, screen: WriteScreen, download: _Download) -> None:
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

    def _keep(self, screen: WriteScreen) -> None:
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
        writes = screen.app.way_to("generate")
        screen.notify(f"{name} writes {until}. {writes} writes branches with it.")


PICKS = 10
"""Picks before the offer is made."""
_HINT = "recommended models"


class ModelOffer:
    """Shows once, in the status line, which key lists larger models.

    It is due after ten picks, or when the first story has been left, and waits until the writer pauses. It is
    never repeated, in this run or later, nor made to a writer who has seen the list or chosen a model.
    """

    def __init__(self, settings: Settings) -> None:
        self._pending = launch.model_key(settings) is None and not launch.elsewhere(settings)
        self._picks = 0

    @property
    def is_due(self) -> bool:
        """Whether to make the offer as soon as the writer pauses."""
        return self._pending and self._picks >= PICKS

    def count_pick(self) -> None:
        self._picks += 1

    def leave_story(self) -> None:
        """Record that the writer left a story."""
        self._picks = PICKS

    def withdraw(self) -> None:
        """Record that the writer has seen the list of models."""
        if self._pending:
            self._pending = False
            hints.give_once(_HINT)

    def watch(self, screen: WriteScreen) -> None:
        """Make the offer if it is due and the writer pauses. Called by the pump."""
        if not self.is_due or not self._may_speak(screen):
            return
        self._pending = False
        model, _ = recommend(read_recommended().models, Machine(memory(), memory_budget()))
        if model is not None and hints.give_once(_HINT):
            way = screen.app.way_to("model")
            screen.notify(f"Larger models write better prose. {way} lists free ones that fit this machine.")

    @staticmethod
    def _may_speak(screen: WriteScreen) -> bool:
        app, model = screen.app, screen.session.model
        if model is None or Path(model.path) != bundled_model():
            return False
        ready = app.keyboard.is_open and screen.on_top
        return ready and app.writer_rests
