"""A workbench over the real session, engine and bundled model, or over stand-ins; driven step by step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import textual.app
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.screen import Screen

from srbwriter.cli.table import every_key
from srbwriter.config import Settings
from srbwriter.config.settings import Setting
from srbwriter.tui.app import App
from srbwriter.tui.write.screen import WriteScreen
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

    async def choose(self, *commands: str) -> None:
        """Run commands as the menu does, by their ids."""
        for command in commands:
            self.app.action_run_on_desk(command)
            await self.settle()

    async def settle(self) -> None:
        """Let what was asked for be done, and painted, and half a second pass for the keys that follow."""
        self.screen.letters.rest()
        self.app.typed_at -= 0.4
        await self.pilot.pause()
        self.session.settle()
        self.screen.pump.flush()
        await self.pilot.pause()
        for pane in self.screen.grid.panes:
            pane.words_at -= 1

    async def write(self, tokens: int = 12) -> None:
        """Start branches and let each have some tokens."""
        await self.press("ctrl+n")
        await self.tokens(tokens)

    async def tokens(self, tokens: int) -> None:
        self.session.step(tokens)
        self.screen.pump.flush()
        await self.pilot.pause()
        for pane in self.screen.grid.panes:
            pane.words_at -= 1

    def engine_until(self, true: Callable[[], bool]) -> None:
        """Let the engine work until something holds."""
        engine = self.session.engine
        engine._scheduler.queue.rest_seconds = 0.0
        while not true():
            assert engine.process() or true(), "the engine fell asleep before its time"

    async def on_panes(self) -> None:
        """Give the current pane the focus."""
        self.screen.grid.go(self.screen.grid.current)
        await self.pilot.pause()

    @property
    def said(self) -> str:
        """All that the writer was told so far in lines that go away."""
        return "\n".join(self.app.said)

    @property
    def last_said(self) -> str:
        """The last of these lines; empty if there was none."""
        return self.app.said[-1] if self.app.said else ""

    @property
    def status(self) -> str:
        """The status line."""
        return self.screen.status_line.render().plain

    def texts(self) -> list[str]:
        return [branch.text for branch in self.session.round.branches]


async def wait_until_idle(*_: object) -> None:
    """Return when every task waits for a timer, a thread or a socket."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(0)
        if not loop._ready:  # type: ignore[attr-defined]
            return


async def wait_for_screen(pilot: Pilot[None], timeout: float = 30.0) -> bool:
    """Return when all widgets have processed what was in their queues: none has a message left.

    Textual's own sends each widget a message for that, which costs more than most keys.
    """
    await wait_until_idle()
    return True


async def pause(pilot: Pilot[None], delay: float | None = None) -> None:
    """Return when the app has nothing to do and all is painted, at the soonest after ``delay`` seconds.

    Textual's own pause measures the processor's time: at least 20 ms, and more on a busy machine.
    """
    await asyncio.sleep(delay or 0)
    await wait_until_idle()
    while pilot.app._resize_event is not None:  # the screens hear of it a moment later
        await asyncio.sleep(1 / 120)
        await wait_until_idle()
    while True:
        screens = [*pilot.app._background_screens, pilot.app.screen]
        for shown in screens:
            shown._on_timer_update()
        await wait_until_idle()
        if is_painted(screens):
            _paint(screens[-1])
            await wait_until_idle()
            if is_painted(screens):
                return


def is_painted(screens: list[Screen[Any]]) -> bool:
    """Return whether these are still the screens that are seen, and nothing of them is to be painted."""
    seen = [*screens[0].app._background_screens, screens[0].app.screen]
    return screens == seen and not any(screen._update_timer._active.is_set() for screen in seen)


_paint = Screen._compositor_refresh


def paint_later(screen: Screen) -> None:
    """Remember what is to be painted: the next pause paints it, once."""
    if screen is screen.app.screen:
        screen._dirty_widgets.clear()
    else:
        _paint(screen)  # which tells the screen above


_parse_rules = Stylesheet._parse_rules
_parsed: dict[Any, list[RuleSet]] = {}


def parse_rules_once(sheet: Stylesheet, *source: Any, **more: Any) -> list[RuleSet]:
    """Return the rules of a source, which are parsed once for all apps of the same colours."""
    key = (source, *more.items(), frozenset(sheet._variables.items()))
    if key not in _parsed:
        _parsed[key] = _parse_rules(sheet, *source, **more)
    return _parsed[key]


@pytest.fixture(autouse=True)
def quick_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key and a pause of the pilot take no longer than what they lead to; styles are parsed once.

    What a pause leaves is painted, and nothing that is painted over before anyone could look.
    """
    monkeypatch.setattr(Screen, "_compositor_refresh", paint_later)
    monkeypatch.setattr(Stylesheet, "_parse_rules", parse_rules_once)
    monkeypatch.setattr(Pilot, "pause", pause)
    monkeypatch.setattr(Pilot, "_wait_for_screen", wait_for_screen)
    monkeypatch.setattr(textual.app, "wait_for_idle", wait_until_idle)


OpenBench = Callable[..., AbstractAsyncContextManager[Bench]]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture
def open_bench(tmp_path: Path) -> OpenBench:
    """``async with open_bench(text=…, n=…, size=…) as bench``.

    Where it has ``started``, branches have so many tokens and the first is chosen.

    ``fake`` branches write words of their own: for pictures that must be the same everywhere, and for
    what comes piece by piece. The load of a session that is not ``ready`` ends when a test says so.
    """

    @asynccontextmanager
    async def opened(
        text: str = "It rained.",
        n: int = 4,
        size: tuple[int, int] = (120, 40),
        ready: bool = True,
        settings: dict[str, object] | None = None,
        fake: bool = False,
        started: int = 0,
    ) -> AsyncIterator[Bench]:
        session: Any
        session = FakeSession(tmp_path, text, n) if fake else SteppedSession(tmp_path, text, n, ready)
        said = {"instruments.look_ahead": "off"} | (settings or {})  # who tests it says so
        found = {name: Setting(value, "flag") for name, value in said.items()}
        app = App(session, Settings(every_key(), found))  # type: ignore[arg-type]
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            bench = Bench(app, pilot, session)
            if started:
                await bench.write(started)
                await bench.on_panes()
            yield bench
        assert not app.write_screen.defects
        if not session.closed:
            session.close()

    return opened


def write_on(bench: Bench, text: str) -> None:
    """Let the first branch have written ``text``."""
    generation = bench.session.round.generation if bench.session.round else None
    assert generation is not None
    buffer = generation.branches[0].buffer
    buffer.pieces.append(text)
    buffer.ids.append(0)
    buffer.ends.append(sum(map(len, buffer.pieces)))
