"""The real session over the real engine and the bundled model; only the steps are taken by hand."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

from srbwriter.demo import bundled_model
from srbwriter.engine.engine import Engine
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import BranchState, EngineOptions, NoModel, Stop
from srbwriter.session import Session
from srbwriter.story import Story, StoryError
from tests.fakes.shared_model import load_engine

OPTIONS = EngineOptions(n_ctx=2048, gpu_layers=0, threads=1, seed=1, max_branches=48)
WAIT = 30.0


class SteppedSession(Session):
    """Nothing is written but by :meth:`step`; verbs are carried out by :meth:`settle`.

    A load ends by itself, or after :meth:`hold_loads` (or not ``ready``) when the test says how.
    """

    def __init__(self, folder: Path, text: str = "", n: int = 4, ready: bool = True) -> None:
        self._prepared, self._may_load = threading.Event(), threading.Event()
        self._trouble: Exception | None = None
        if ready:
            self._may_load.set()
        file = folder / "story.srbw"
        story = Story.open(file) if file.exists() else Story.create(file, "Rain")
        if text:
            story.append(text)
            story.end_typing()
        super().__init__(
            story, EngineLoader(bundled_model(), OPTIONS, self._read), n=n, options=OPTIONS,
            stop=Stop(max_tokens=64, ignore_eog=True),
        )  # fmt: skip
        self.closed = False
        if ready:
            self.finish_loading()

    def _read(self, path: Any, options: EngineOptions | None, /, **more: Any) -> Engine:
        self._may_load.wait()
        if self._trouble is not None:
            raise self._trouble
        return load_engine(path, options, thread=False, **more)

    def load_model(self, path: Path) -> None:
        self._load(EngineLoader(path, OPTIONS, self._read))

    def hold_loads(self) -> None:
        """Let the next load wait for :meth:`finish_loading` or :meth:`fail_loading`."""
        self._prepared.clear()
        self._may_load.clear()

    def finish_loading(self) -> None:
        self._may_load.set()
        assert self._prepared.wait(WAIT), "the model was not loaded"

    def fail_loading(self, error: Exception) -> None:
        """End the load with ``error``; the next one is held."""
        self._trouble = error
        self._may_load.set()
        with contextlib.suppress(type(error)):
            self.loader.wait(WAIT)
        self._trouble = None
        self.hold_loads()

    def _when_ready(self, loader: EngineLoader) -> None:
        super()._when_ready(loader)
        with contextlib.suppress(NoModel):  # it was given up
            assert self.prompter
            self._prepared.set()

    def settle(self) -> None:
        """Carry out the verbs that were called, as the next step of the engine would, and decode nothing."""
        if self.engine is not None and self.engine_state == "READY":
            scheduler = self.engine._scheduler
            while scheduler.inbox:
                scheduler.queue.steady = False  # as where the engine takes a command
                scheduler.commands.handle(scheduler.inbox.popleft())
                scheduler.queue.steady = False  # the next step is not like the last
            scheduler.publish()
        self.sync()

    def step(self, tokens: int) -> None:
        """Let every branch that writes have so many tokens more."""
        assert self.engine is not None and self.round is not None
        written = {branch.index: len(branch.ids) for branch in self.round.branches}
        while any(
            branch.live and branch.state is not BranchState.PAUSED
            and len(branch.ids) < written.get(branch.index, 0) + tokens
            for branch in self.round.branches
        ):  # fmt: skip
            assert self.engine.process(), "the engine has nothing to do, and branches wait"
        self.sync()

    def sync(self) -> None:
        """What was published is written down now; a disk that refuses is the test's business."""
        with contextlib.suppress(StoryError):
            self.keep()

    def close(self, keep_model: bool = False) -> None:
        self._may_load.set()
        super().close(keep_model)
        self.closed, self.kept_model = True, keep_model
