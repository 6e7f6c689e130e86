"""The session: verbs for interfaces. Each returns at once; the engine works afterwards."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srbwriter import launch
from srbwriter.config import Settings
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import EngineOptions, Sampling, Stop
from srbwriter.story import Story, StoryError

from . import drafts
from .instrument import Kind
from .instruments import INSTRUMENTS
from .open import open_story
from .sampling import Usual, Variety, follow_usual, variety_of
from .writing import Writing

log = logging.getLogger(__name__)


class Session(Writing):
    """An open story and an engine that may still be loading. Close it when done.

    Its verbs for models are in :class:`~srbwriter.session.models.Models`, for branches in
    :class:`~srbwriter.session.asking.Rounds`, for the text in :class:`~srbwriter.session.writing.Writing`;
    further features for branches are instruments.
    """

    def __init__(
        self,
        story: Story,
        loader: EngineLoader,
        *,
        n: int = 8,
        sampling: Sampling | None = None,
        stop: Stop | None = None,
        options: EngineOptions | None = None,
        variety: Variety | None = None,
    ) -> None:
        super().__init__(
            story, loader, options, n, sampling or Sampling(), stop or Stop(max_tokens=64),
            variety or Variety(),
        )  # fmt: skip
        self._settings: Settings | None = None
        self.usual = Usual(self.sampling, self.stop, self.variety, n)
        self.instruments.update((kind, kind(self)) for kind in INSTRUMENTS)
        self.taken_up = drafts.take_up(story)
        """How many times words of an earlier run, which died, became nodes of the story."""
        self.restore_workspace()
        self._await(loader)

    @classmethod
    def open(
        cls, settings: Settings, story: Path | None = None, loader: EngineLoader | None = None
    ) -> Session:
        """Open ``story`` (created if missing; None: the last one) and begin to load the model.

        ``loader`` is another session's load, running or finished; None begins a new one.
        Raises StoryError if the file is not a story or its folder is not writable.
        """
        loader = loader or launch.loader(settings)
        settings = launch.suit_model(settings, loader.path, in_app=True)
        opened = cls(
            open_story(story),
            loader,
            n=launch.branches(settings),
            sampling=launch.sampling(settings),
            stop=launch.stop(settings),
            options=loader.options or launch.engine_options(settings),
            variety=variety_of(settings),
        )
        opened._settings, opened.usual = settings, opened._usual_of(settings)
        for instrument in opened.instruments.values():
            instrument.configure(settings)
        return opened

    def _usual_of(self, settings: Settings) -> Usual:
        return Usual(
            launch.sampling(settings), launch.stop(settings), variety_of(settings), launch.branches(settings),
            launch.fields_of_model(settings),
        )  # fmt: skip

    def load_model(self, path: Path) -> None:
        """Load another model, with what suits it where nobody said otherwise. Running branches stop."""
        if self._settings is not None:
            before, settings = self.usual, launch.suit_model(self._settings, path, in_app=True)
            self.usual = self._usual_of(settings)
            self.sampling = follow_usual(self.sampling, before.sampling, self.usual.sampling)
            self.stop = follow_usual(self.stop, before.stop, self.usual.stop)
        super().load_model(path)

    def _meet_model(self) -> None:
        if not self.capabilities.has("loop_guard"):  # it is on by default
            self.sampling = replace(self.sampling, loop_guard=0)
            self.usual = replace(self.usual, sampling=replace(self.usual.sampling, loop_guard=0))
        super()._meet_model()

    def instrument(self, kind: type[Kind]) -> Kind:
        """Return the instrument of a class, as ``LookAhead.of(session)`` does. Raises KeyError without it."""
        return self.instruments[kind]  # type: ignore[return-value]

    if not TYPE_CHECKING:  # hidden from type checkers, which would accept any name

        def __getattr__(self, name: str) -> Any:
            """Return an instrument by its name, for scripts."""
            for instrument in self.__dict__.get("instruments", {}).values():
                if instrument.name == name:
                    return instrument
            raise AttributeError(f"a session has no {name!r}", name=name, obj=self)

    def prepare_close(self) -> None:
        """Stop the branches and a running load, so that :meth:`close` waits less; return at once."""
        self.stop_all()
        self._loader.cancel()

    def close(self, keep_model: bool = False) -> None:
        """Stop the branches, save everything, free the model.

        With ``keep_model`` the model stays loaded, or continues to load, for the session that gets
        :attr:`loader` next; the caller has to close that loader.
        """
        if self._closed:
            return
        self._closed = True
        for instrument in self.instruments.values():
            instrument.close()
            instrument.end_worker()
        self.stop_all()
        try:
            self.save()  # closing the model may take a while: save first
        except StoryError as error:
            log.warning("not written down yet: %s", error)
        if keep_model:
            self._let_end()
        else:
            self._loader.close()
        self._recorder.close()
        try:
            self.story.close()
        except StoryError as error:
            log.error("the last words are kept elsewhere until the story is opened again: %s", error)
