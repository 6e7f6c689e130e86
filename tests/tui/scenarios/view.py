"""Scenarios of looking about, and of the program."""

from __future__ import annotations

import pytest
from textual.widgets import OptionList, Static

from srbwriter.engine.types import FinishReason
from srbwriter.story import Story
from srbwriter.tui.dialogs.help import Help
from srbwriter.tui.dialogs.menu import Menu
from srbwriter.tui.dialogs.picker import Jump, Picker
from srbwriter.tui.dialogs.settings import SettingsScreen
from srbwriter.tui.story.reading import LogView, Reading
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import answer, head, long_branch, opened, scenario, started, visible


@scenario
async def switch(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.write()
    await bench.press("tab")
    assert bench.screen.focused is bench.screen.grid.pane
    await bench.press("tab")
    assert bench.screen.editor.has_focus


async def moved(bench: Bench, *keys: str) -> int:
    await started(bench)
    await bench.press(*keys)
    assert bench.screen.focused is bench.screen.grid.pane
    return bench.screen.grid.current


@scenario
async def left(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert await moved(bench, "right", "left") == 0
    await bench.press("right", "right", "left")
    assert bench.screen.grid.current == 1


@scenario
async def right(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert await moved(bench, "right") == 1


@scenario
async def up(bench: Bench, _: pytest.MonkeyPatch) -> None:
    bench.session.n = 8
    await moved(bench, "down")
    assert bench.screen.grid.current > 0
    await bench.press("up")
    assert bench.screen.grid.current == 0


@scenario
async def down(bench: Bench, _: pytest.MonkeyPatch) -> None:
    bench.session.n = 8
    assert await moved(bench, "down") > 1


@scenario
async def read_back(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await long_branch(bench)
    pane, other = bench.screen.grid.panes[:2]
    await bench.press("end", "pageup")
    end, seen = len(pane.text), [pane.render_line(y).text for y in range(1, pane.size.height)]
    await bench.tokens(100)
    assert not pane.following and pane.first_line > 0 and len(pane.text) > end
    assert [pane.render_line(y).text for y in range(1, pane.size.height)] == seen
    assert other.first_line == 0


@scenario
async def read_on(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await long_branch(bench)
    pane = bench.screen.grid.panes[0]
    assert pane.first_line == 0
    await bench.press("pagedown")
    assert pane.first_line > 0
    await bench.press(*["pagedown"] * 30)
    assert pane.following


@scenario
async def follow(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await long_branch(bench)
    pane = bench.screen.grid.panes[0]
    before = pane.first_line
    await bench.press("end")
    assert pane.following and pane.first_line > before
    seen = pane.first_line
    await bench.tokens(100)
    assert pane.first_line > seen


@scenario
async def from_start(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await long_branch(bench)
    pane = bench.screen.grid.panes[0]
    await bench.press("end", "home")
    assert pane.first_line == 0 and not pane.following


@scenario
async def layout(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.write()
    assert bench.screen.grid.region.y > bench.screen.editor.region.y
    await bench.press("ctrl+l")
    await bench.pilot.pause()
    assert bench.screen.grid.region.x > bench.screen.editor.region.x
    await bench.press("ctrl+l")
    await bench.pilot.pause()
    assert len({pane.region.x for pane in bench.screen.grid.shown}) == 1


@scenario
async def single(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.choose("single")
    await bench.pilot.pause()
    assert [pane.index for pane in bench.screen.grid.shown] == [0]
    assert not bench.screen.editor.display
    await bench.choose("single")
    assert len(bench.screen.grid.shown) == 4


@scenario
async def jump(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.choose("jump")
    await opened(bench, Jump)
    assert "[d]" in bench.screen.grid.panes[2].head
    await bench.press("d")
    assert bench.screen.grid.current == 2
    assert "[d]" not in head(bench, 2)


@scenario
async def read(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press("ctrl+r")
    screen = await opened(bench, Reading)
    assert str(screen.query_one("#page", Static).content) == "It rained."


@scenario
async def theme(bench: Bench, _: pytest.MonkeyPatch) -> None:
    before = bench.app.theme
    bench.screen.run("theme")
    await opened(bench, Picker)
    await bench.press(*"linen")
    assert bench.app.theme == "linen"
    await bench.press("escape")
    assert bench.app.theme == before
    bench.screen.run("theme")
    await bench.pilot.pause()
    await bench.press(*"linen", "enter")
    assert bench.app.theme == "linen"


@scenario
async def menu(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.write()
    await bench.press("right", "tab", "ctrl+g")
    await opened(bench, Menu)
    await bench.press(*"kill", "enter")
    assert bench.session.round.branches[0].finish_reason is FinishReason.KILLED


@scenario
async def help(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press("f1")
    screen = await opened(bench, Help)
    assert screen.query(Static) and "Write new branches" in visible(bench)


@scenario
async def settings(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press("f10")
    screen = await opened(bench, SettingsScreen)
    rows = screen.query_one(OptionList)

    def listed() -> list[str]:
        return [str(rows.get_option_at_index(i).prompt) for i in range(rows.option_count)]

    rows.highlighted = next(i for i, name in enumerate(listed()) if "more settings" in name)
    await bench.press("enter")
    names = listed()
    rows.highlighted = next(i for i, name in enumerate(names) if "interface.layout" in name)
    await bench.press("enter")
    await answer(bench, "right")
    assert bench.screen.has_class("-right")


@scenario
async def log(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press("f12")
    await opened(bench, LogView)


@scenario
async def suspend(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(bench.app, "action_suspend_process", lambda: asked.append(True))
    bench.screen.run("suspend")
    assert asked


@scenario
async def quit(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press(*" Hard")
    await bench.press("ctrl+q")
    assert bench.app._exit
    with Story.open(bench.session.story.file, readonly=True) as kept:
        assert kept.text(kept.current) == "It rained. Hard"


@scenario
async def quiet(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press("ctrl+t")
    assert bench.screen.editor.size.height >= 36 and not bench.screen.key_line.size
    await bench.press("escape")
    assert bench.screen.key_line.size and bench.screen.editor.has_focus


@scenario
async def figures(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    for shown in (False, True, False):
        line, heads = bench.screen.status_line.line, [head(bench, 0), head(bench, 1)]
        assert ("context" in line, "Rain" in line or "saved" in line) == (shown, True)
        assert all((" tok" in words) == shown for words in heads)
        await bench.press("q")
