"""One scenario for each command of the table. All assert; a screen that did not open is an assertion too."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from typing import Any

import pytest
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static, TextArea

from srbwriter.engine.types import BranchState, FinishReason
from srbwriter.story import ROOT, Story
from srbwriter.tui.screens.compare import Compare
from srbwriter.tui.screens.context import ContextView
from srbwriter.tui.screens.help import Help
from srbwriter.tui.screens.jump import Jump
from srbwriter.tui.screens.knobs import Knobs
from srbwriter.tui.screens.leader import LeaderMenu
from srbwriter.tui.screens.logview import LogView
from srbwriter.tui.screens.lorebook import Lorebook
from srbwriter.tui.screens.picker import Picker
from srbwriter.tui.screens.reading import Reading
from srbwriter.tui.screens.settings import SettingsScreen
from srbwriter.tui.screens.sheet import Sheet
from srbwriter.tui.screens.tree import TreeScreen
from tests.tui.conftest import Bench

Scenario = Callable[[Bench, pytest.MonkeyPatch], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}


def scenario(act: Scenario) -> Scenario:
    SCENARIOS[act.__name__.rstrip("_")] = act
    return act


async def started(bench: Bench, tokens: int = 12) -> None:
    """Branches are being written and the first has the focus."""
    bench.session.generate()
    await bench.tokens(tokens)
    await bench.on_panes()


async def opened(bench: Bench, kind: type[Screen[Any]]) -> Any:
    await bench.pilot.pause()
    assert isinstance(bench.app.screen, kind), f"{kind.__name__} is not open"
    return bench.app.screen


async def answer(bench: Bench, text: str) -> None:
    """Answer the question that is open."""
    await bench.pilot.pause()
    assert bench.app.screen is not bench.desk, "nothing was asked"
    bench.app.screen.query_one(Input).value = text
    await bench.press("enter")


def visible(bench: Bench) -> str:
    """All text on the screen, in lines."""
    strips = bench.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def head(bench: Bench, index: int = 0) -> str:
    bench.desk.pump.flush()
    return bench.desk.grid.panes[index].head


# ---- one branch


@scenario
async def pick_number(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    picked = bench.texts()[1]
    await bench.press("2")
    assert bench.session.text() == "It rained." + picked
    assert len(bench.session.story.children(bench.session.story.parent(bench.session.node))) == 4


@scenario
async def pick(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    picked = bench.texts()[0]
    await bench.press("enter")
    assert bench.session.text() == "It rained." + picked


@scenario
async def reroll(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    before = bench.texts()
    await bench.press("r")
    await bench.tokens(3)
    after = bench.texts()
    assert not after[0].startswith(before[0])
    assert after[1].startswith(before[1])
    assert bench.desk.grid.panes[0].text == after[0]


@scenario
async def kill(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("k")
    branches = bench.session.round.branches
    assert branches[0].finish_reason is FinishReason.KILLED
    assert branches[1].live
    assert "killed" in head(bench)


@scenario
async def stop(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    text = bench.texts()[0]
    await bench.press("s")
    await bench.tokens(3)
    assert bench.texts()[0] == text
    assert "stopped" in head(bench)
    assert bench.session.round.branches[1].live


@scenario
async def pause(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("space")
    assert bench.session.round.branches[0].state is BranchState.PAUSED
    assert "paused" in head(bench)
    await bench.press("space")
    assert bench.session.round.branches[0].state is BranchState.WRITING


@scenario
async def extend(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench, 64)
    assert "full length" in head(bench)
    before = bench.texts()[0]
    await bench.press("e")
    await bench.tokens(3)
    assert bench.texts()[0].startswith(before) and len(bench.texts()[0]) > len(before)


@scenario
async def rewind(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench, 1)
    bench.session.append(0, " It was late. Nobody came.")
    await bench.press("backspace")
    assert bench.texts()[0].endswith("It was late.")


@scenario
async def type_into(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    others = bench.texts()[1]
    await bench.press("i")
    await answer(bench, " and then she")
    assert bench.texts()[0].endswith(" and then she")
    assert bench.texts()[1] == others


@scenario
async def edit_pick(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("o")
    sheet = await opened(bench, Sheet)
    sheet.query_one(TextArea).text = " It stopped."
    await bench.press("ctrl+s")
    assert bench.session.text() == "It rained. It stopped."


@scenario
async def lock(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("l")
    assert bench.session.round.locked == {0}
    assert "locked" in head(bench)
    before = bench.texts()[0]
    await bench.press("R")
    assert bench.texts()[0] == before


@scenario
async def copy(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("c")
    assert bench.app.clipboard == bench.texts()[0]


@scenario
async def rate_up(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("greater_than_sign")
    assert bench.session.story.marks(bench.session.round.node_of(0)).rating == 1
    assert "good" in head(bench)
    await bench.press("greater_than_sign")
    assert bench.session.story.marks(bench.session.round.node_of(0)).rating == 0


@scenario
async def rate_down(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("less_than_sign")
    assert bench.session.story.marks(bench.session.round.node_of(0)).rating == -1
    assert "bad" in head(bench)


@scenario
async def bookmark(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("b")
    assert bench.session.story.bookmarks() == [bench.session.round.node_of(0)]
    assert "★" in head(bench)
    await bench.press("b")
    assert bench.session.story.bookmarks() == []


@scenario
async def branch_knobs(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("t")
    await opened(bench, Knobs)
    await bench.press("right")
    assert bench.session.round.branches[0].sampling.temperature == pytest.approx(0.85)
    assert bench.session.round.branches[1].sampling.temperature == pytest.approx(0.8)
    assert "temp 0.85" in head(bench)


@scenario
async def compare(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("vertical_line")
    await opened(bench, Picker)
    await bench.press("enter")
    screen = await opened(bench, Compare)
    shown = " ".join(str(part.content) for part in screen.query(Static))
    assert bench.texts()[0].strip() in shown and bench.texts()[1].strip() in shown


# ---- taking a part


async def taken(bench: Bench, *keys: str) -> str:
    """Put known words into the first branch, press keys, and see how much a pick takes."""
    await started(bench, 1)
    bench.session.reroll(0)
    bench.session.stop_branch(0)
    bench.session.append(0, " One two three. Four five.\n\nSix.")
    bench.session.stop_branch(0)
    bench.desk.pump.flush()
    await bench.press(*keys)
    await bench.press("enter")
    return bench.session.text().removeprefix("It rained.")


@scenario
async def take_word(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert await taken(bench, "w", "w") == " One two"
    rest = bench.session.story.children(bench.session.node)
    assert any(bench.session.story.node(node).text.startswith(" three.") for node in rest)


@scenario
async def untake_word(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert await taken(bench, "w", "w", "W") == " One"


@scenario
async def take_sentence(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert await taken(bench, "d") == " One two three."


@scenario
async def untake_sentence(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert await taken(bench, "d", "d", "D") == " One two three."


@scenario
async def take_paragraph(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert await taken(bench, "f") == " One two three. Four five."


@scenario
async def untake_paragraph(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert await taken(bench, "f", "f", "F") == " One two three. Four five."


# ---- all branches


@scenario
async def generate(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press("ctrl+n")
    assert bench.session.round is not None
    assert len(bench.session.round.branches) == 4


@scenario
async def stop_all(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("escape")
    assert not any(branch.live for branch in bench.session.round.branches)
    await bench.press("escape")
    assert bench.desk.editor.has_focus


@scenario
async def reroll_all(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    before = bench.texts()
    await bench.press("R")
    await bench.tokens(12)
    assert not any(new.startswith(old) for old, new in zip(before, bench.texts(), strict=True))


@scenario
async def more(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("plus")
    await bench.tokens(2)
    assert len(bench.session.round.branches) == 5
    assert bench.session.n == 5
    assert bench.desk.grid.panes[4].text


@scenario
async def fewer(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("minus")
    assert bench.session.n == 3
    assert bench.session.round.branches[3].finish_reason is FinishReason.KILLED


async def many(bench: Bench) -> None:
    bench.session.n = 40
    await started(bench, 2)
    assert bench.desk.grid.pages > 1


@scenario
async def next_page(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await many(bench)
    first = bench.desk.grid.shown[0].index
    await bench.press("right_square_bracket")
    assert bench.desk.grid.shown[0].index > first
    assert bench.desk.grid.shown[0].text


@scenario
async def previous_page(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await many(bench)
    await bench.press("right_square_bracket", "left_square_bracket")
    assert bench.desk.grid.shown[0].index == 0


# ---- the story


@scenario
async def undo(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("1", "ctrl+z")
    assert bench.session.text() == "It rained."
    assert bench.desk.editor.text == "It rained."


@scenario
async def redo(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("1")
    picked = bench.session.text()
    await bench.press("ctrl+z", "ctrl+y")
    assert picked != "It rained."
    assert bench.session.text() == picked == bench.desk.editor.text


@scenario
async def find(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press("ctrl+f")
    await answer(bench, "RAIN")
    assert bench.desk.editor.selected_text == "rain"


@scenario
async def replace(bench: Bench, _: pytest.MonkeyPatch) -> None:
    bench.desk.run("replace")
    await answer(bench, "rained")
    await answer(bench, "snowed")
    assert bench.session.text() == "It snowed." == bench.desk.editor.text


@scenario
async def copy_story(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("C")
    assert bench.app.clipboard == "It rained."


@scenario
async def own_editor(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import sys; f = open(sys.argv[1], 'a'); f.write(' All day.\\n')"
    monkeypatch.setenv("VISUAL", f'{sys.executable} -c "{script}"')

    @contextmanager
    def aside():  # noqa: ANN202
        yield

    monkeypatch.setattr(bench.app, "suspend", aside)
    await bench.press("f4")
    assert bench.session.text() == "It rained. All day."
    assert os.environ["VISUAL"]


@scenario
async def save(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press(*" Hard")
    assert bench.session.text() == "It rained."
    await bench.press("ctrl+s")
    assert bench.session.text() == "It rained. Hard"


@scenario
async def openings(bench: Bench, _: pytest.MonkeyPatch) -> None:
    bench.desk.run("openings")
    await opened(bench, Picker)
    await bench.press("enter")
    assert len(bench.session.text()) > len("It rained.")
    assert bench.session.round is not None


# ---- the tree


@scenario
async def tree(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("1")
    here = bench.session.node
    await bench.press("f3")
    screen = await opened(bench, TreeScreen)
    assert screen.view.row.node == here
    await bench.press("left", "enter")
    assert bench.session.node == bench.session.story.parent(here)
    assert bench.desk.editor.text == "It rained."


@scenario
async def parent(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("1")
    await bench.on_panes()
    await bench.press("P")
    assert bench.session.text() == "It rained."


@scenario
async def search(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench, 1)
    bench.session.append(2, " the zeppelin waited")
    bench.session.sync()
    await bench.press("S")
    await answer(bench, "zeppelin")
    await opened(bench, Picker)
    await bench.press("enter")
    assert bench.session.text().endswith("the zeppelin waited")


@scenario
async def bookmarks(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    node = bench.session.round.node_of(3)
    bench.session.story.mark(node, bookmark=True)
    await bench.press("B")
    await opened(bench, Picker)
    await bench.press("enter")
    assert bench.session.node == node


@scenario
async def history(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    start = bench.session.node
    await bench.press("1")
    await bench.on_panes()
    await bench.press("H")
    await opened(bench, Picker)
    await bench.press("down", "enter")
    assert bench.session.node == start


# ---- knobs


@scenario
async def knobs(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press("f2")
    screen = await opened(bench, Knobs)
    await bench.press("right", "right")
    assert bench.session.sampling.temperature == pytest.approx(0.9)
    await bench.press("backspace")
    assert bench.session.sampling.temperature == pytest.approx(0.8)
    await bench.press("l")
    await answer(bench, "0.5 … 1.1")
    assert bench.session.ladder == ("temperature", 0.5, 1.1)
    assert screen.knob is not None


@scenario
async def memory(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("M")
    sheet = await opened(bench, Sheet)
    sheet.query_one(TextArea).text = "A harbour town."
    await bench.press("ctrl+s")
    assert bench.session.story.settings(bench.session.node).memory == "A harbour town."


@scenario
async def author_note(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("N")
    sheet = await opened(bench, Sheet)
    sheet.query_one(TextArea).text = "Slowly."
    await bench.press("ctrl+s")
    assert bench.session.story.settings(ROOT).author_note == "Slowly."


@scenario
async def lore(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("O")
    await opened(bench, Lorebook)
    await bench.press("n")
    await answer(bench, "Mara")
    await bench.press("enter")
    sheet = await opened(bench, Sheet)
    sheet.query_one(TextArea).text = "Mara keeps the light."
    await bench.press("ctrl+s")
    entry = bench.session.story.settings(bench.session.node).lore[0]
    assert (entry.name, entry.keys, entry.text) == ("Mara", ["Mara"], "Mara keeps the light.")


@scenario
async def context(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press("f8")
    screen = await opened(bench, ContextView)
    shown = " ".join(str(part.content) for part in screen.query(Static))
    assert "It rained." in shown and "of 4096 tokens" in shown


@scenario
async def model(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("m")
    await opened(bench, Picker)
    await bench.press("enter")
    assert bench.session.engine_state == "LOADING"
    assert bench.session.loading.suffix == ".gguf"


# ---- looking


@scenario
async def switch(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.write()
    await bench.press("tab")
    assert bench.desk.focused is bench.desk.grid.pane
    await bench.press("tab")
    assert bench.desk.editor.has_focus


async def moved(bench: Bench, *keys: str) -> int:
    await started(bench)
    await bench.press(*keys)
    assert bench.desk.focused is bench.desk.grid.pane
    return bench.desk.grid.current


@scenario
async def left(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert await moved(bench, "right", "left") == 0
    await bench.press("right", "right", "left")
    assert bench.desk.grid.current == 1


@scenario
async def right(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert await moved(bench, "right") == 1


@scenario
async def up(bench: Bench, _: pytest.MonkeyPatch) -> None:
    bench.session.n = 8
    await moved(bench, "down")
    assert bench.desk.grid.current > 0
    await bench.press("up")
    assert bench.desk.grid.current == 0


@scenario
async def down(bench: Bench, _: pytest.MonkeyPatch) -> None:
    bench.session.n = 8
    assert await moved(bench, "down") > 1


async def long_branch(bench: Bench) -> None:
    bench.session.stop = type(bench.session.stop)(max_tokens=None)
    await started(bench, 300)


@scenario
async def read_back(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await long_branch(bench)
    pane, other = bench.desk.grid.panes[:2]
    await bench.press("end", "pageup")
    end = len(pane.text)
    await bench.tokens(20)
    assert not pane.following and pane.first_line > 0 and len(pane.text) > end
    assert other.first_line == 0


@scenario
async def read_on(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await long_branch(bench)
    pane = bench.desk.grid.panes[0]
    assert pane.first_line == 0
    await bench.press("pagedown")
    assert pane.first_line > 0
    await bench.press(*["pagedown"] * 30)
    assert pane.following


@scenario
async def follow(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await long_branch(bench)
    pane = bench.desk.grid.panes[0]
    before = pane.first_line
    await bench.press("end")
    assert pane.following and pane.first_line > before
    seen = pane.first_line
    await bench.tokens(100)
    assert pane.first_line > seen


@scenario
async def from_start(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await long_branch(bench)
    pane = bench.desk.grid.panes[0]
    await bench.press("end", "home")
    assert pane.first_line == 0 and not pane.following


@scenario
async def layout(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.write()
    assert bench.desk.grid.region.y > bench.desk.editor.region.y
    await bench.press("ctrl+l")
    await bench.pilot.pause()
    assert bench.desk.grid.region.x > bench.desk.editor.region.x
    await bench.press("ctrl+l")
    await bench.pilot.pause()
    assert len({pane.region.x for pane in bench.desk.grid.shown}) == 1


@scenario
async def single(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("z")
    await bench.pilot.pause()
    assert [pane.index for pane in bench.desk.grid.shown] == [0]
    assert not bench.desk.editor.display
    await bench.press("z")
    assert len(bench.desk.grid.shown) == 4


@scenario
async def jump(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("apostrophe")
    await opened(bench, Jump)
    assert "[d]" in bench.desk.grid.panes[2].head
    await bench.press("d")
    assert bench.desk.grid.current == 2
    assert "[d]" not in head(bench, 2)


@scenario
async def read(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press("ctrl+r")
    screen = await opened(bench, Reading)
    assert str(screen.query_one(Static).content) == "It rained."


@scenario
async def theme(bench: Bench, _: pytest.MonkeyPatch) -> None:
    before = bench.app.theme
    bench.desk.run("theme")
    await opened(bench, Picker)
    await bench.press(*"sepia")
    assert bench.app.theme == "sepia"
    await bench.press("escape")
    assert bench.app.theme == before
    bench.desk.run("theme")
    await bench.pilot.pause()
    await bench.press(*"sepia", "enter")
    assert bench.app.theme == "sepia"


# ---- the program


@scenario
async def palette(bench: Bench, _: pytest.MonkeyPatch) -> None:
    from textual.command import CommandPalette

    await bench.press("ctrl+p")
    await opened(bench, CommandPalette)


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
    names = [str(rows.get_option_at_index(i).prompt) for i in range(rows.option_count)]
    rows.highlighted = next(i for i, name in enumerate(names) if "interface.layout" in name)
    await bench.press("enter")
    await answer(bench, "right")
    assert bench.desk.has_class("-right")


@scenario
async def log(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press("f12")
    await opened(bench, LogView)


@scenario
async def suspend(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(bench.app, "action_suspend_process", lambda: asked.append(True))
    bench.desk.run("suspend")
    assert asked


@scenario
async def leader(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.write()
    await bench.press("ctrl+g")
    await opened(bench, LeaderMenu)
    await bench.press("k")
    assert bench.session.round.branches[0].finish_reason is FinishReason.KILLED


@scenario
async def quit(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press(*" Hard")
    await bench.press("ctrl+q")
    assert bench.app._exit
    with Story.open(bench.session.story.file, readonly=True) as kept:
        assert kept.text(kept.current) == "It rained. Hard"
