"""A workbench over a session without a model, driven step by step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from srbwriter.config import Settings, Table, keys
from srbwriter.config.settings import Setting
from srbwriter.tui.app import Workbench
from srbwriter.tui.screens.desk import Desk
from tests.tui.fake_session import FakeSession


class Bench:
    """What a test holds: the app, its pilot, and the session behind it."""

    def __init__(self, app: Workbench, pilot: Pilot[None], session: FakeSession) -> None:
        self.app, self.pilot, self.session = app, pilot, session

    @property
    def desk(self) -> Desk:
        return self.app.desk

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def write(self, tokens: int = 12) -> None:
        """Start branches and let each have some tokens."""
        await self.press("ctrl+n")
        await self.tokens(tokens)

    async def tokens(self, tokens: int) -> None:
        self.session.engine.step(tokens)
        self.desk.pump.flush()
        await self.pilot.pause()

    async def on_panes(self) -> None:
        """Give the current pane the focus."""
        self.desk.grid.go(self.desk.grid.current)
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
    """``async with open_bench(text=…, n=…, size=…) as bench``."""

    @asynccontextmanager
    async def opened(
        text: str = "It rained.", n: int = 4, size: tuple[int, int] = (120, 40), ready: bool = True,
        settings: dict[str, object] | None = None,
    ) -> AsyncIterator[Bench]:
        session = FakeSession(tmp_path, text, n, ready)
        found = {name: Setting(value, "flag") for name, value in (settings or {}).items()}
        app = Workbench(session, Settings(Table(keys.KEYS), found))  # type: ignore[arg-type]
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            yield Bench(app, pilot, session)
        if not session.closed:
            session.close()

    return opened
