"""A workbench over the real session, engine and bundled model, or over stand-ins; driven step by step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from srbwriter.cli.table import every_key
from srbwriter.config import Settings
from srbwriter.config.settings import Setting
from srbwriter.tui.app import App
from srbwriter.tui.write_screen import WriteScreen
from tests.fakes.session import FakeSession
from tests.tui.stepped_session import SteppedSession


class Bench:
    """What a test holds: the app, its pilot, and the session behind it."""

    def __init__(self, app: App, pilot: Pilot[None], session: Any) -> None:
        self.app, self.pilot = app, pilot
        self.session: Any = session

    @property
    def screen(self) -> WriteScreen:
        return self.app.write_screen

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def settle(self) -> None:
        """Let what was asked for be done, and painted."""
        await self.pilot.pause()
        self.session.settle()
        self.screen.pump.flush()
        await self.pilot.pause()

    async def write(self, tokens: int = 12) -> None:
        """Start branches and let each have some tokens."""
        await self.press("ctrl+n")
        await self.tokens(tokens)

    async def tokens(self, tokens: int) -> None:
        self.session.step(tokens)
        self.screen.pump.flush()
        await self.pilot.pause()

    def engine_until(self, true: Callable[[], bool]) -> None:
        """Let the engine work until something holds."""
        engine = self.session.engine
        engine._scheduler.queue.ahead_waits = 0.0
        while not true():
            assert engine.process() or true(), "the engine fell asleep before its time"

    async def on_panes(self) -> None:
        """Give the current pane the focus."""
        self.screen.grid.go(self.screen.grid.current)
        await self.pilot.pause()

    def texts(self) -> list[str]:
        assert self.session.round is not None
        return [branch.text for branch in self.session.round.branches]


OpenBench = Callable[..., AbstractAsyncContextManager[Bench]]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture
def open_bench(tmp_path: Path) -> OpenBench:
    """``async with open_bench(text=…, n=…, size=…) as bench``.

    ``fake`` branches write words of their own: for pictures that must be the same everywhere, and for
    what comes piece by piece. So do those of a session that is not ``ready``: its load ends when a test
    says so.
    """

    @asynccontextmanager
    async def opened(
        text: str = "It rained.",
        n: int = 4,
        size: tuple[int, int] = (120, 40),
        ready: bool = True,
        settings: dict[str, object] | None = None,
        fake: bool = False,
    ) -> AsyncIterator[Bench]:
        session: Any
        if fake or not ready:
            session = FakeSession(tmp_path, text, n, ready)
        else:
            session = SteppedSession(tmp_path, text, n)
        said = {"instruments.look_ahead": "off"} | (settings or {})  # who tests it says so
        found = {name: Setting(value, "flag") for name, value in said.items()}
        app = App(session, Settings(every_key(), found))  # type: ignore[arg-type]
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            yield Bench(app, pilot, session)
        assert not app.write_screen.defects
        if not session.closed:
            session.close()

    return opened
