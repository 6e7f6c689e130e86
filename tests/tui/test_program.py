"""The app: keys of the writer's own, themes on the fly, defects, trouble with the model."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from srbwriter import paths
from srbwriter.config import Table
from srbwriter.config.settings import read_overlay
from srbwriter.engine.types import InvalidRequest, ModelError
from srbwriter.tui import themes
from srbwriter.tui.commands import COMMANDS
from srbwriter.tui.dialogs.picker import Picker
from srbwriter.tui.dialogs.trouble import ModelTrouble
from srbwriter.tui.options import LAYOUT, OPTIONS
from srbwriter.tui.story import external
from tests.tui.conftest import OpenBench


async def test_an_own_theme_is_read_again_when_it_changes(open_bench: OpenBench) -> None:
    folder = themes.own_folder()
    folder.mkdir(parents=True)
    source = (paths.asset_dir("themes") / "paper.toml").read_text()
    mine = folder / "mine.toml"
    mine.write_text(source)
    async with open_bench(settings={"interface.theme": "mine"}) as bench:
        assert bench.app.theme == "mine"
        mine.write_text(source.replace('background = "#faf8f3"', 'background = "#ffffff"'))
        os.utime(mine, ns=(1, 1))
        bench.app.reload_changed_themes()
        await bench.pilot.pause()
        assert bench.app.theme_variables["background"].lower() == "#ffffff"
        mine.write_text("broken")
        bench.app.reload_changed_themes()
        await bench.pilot.pause()
        assert bench.app.theme_variables["background"].lower() == "#ffffff"


async def test_what_the_engine_refuses_is_said_and_a_defect_is_shown_with_its_report(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise InvalidRequest("n", "too many")

    def fail(_: object) -> None:
        raise RuntimeError("a defect")

    async with open_bench() as bench:
        with monkeypatch.context() as refusing:
            refusing.setattr(bench.session, "generate", refuse)
            await bench.press("ctrl+n")
        assert [message.words for message in bench.app.messages.all] == ["n: too many"]
        assert bench.app.screen is bench.screen
        monkeypatch.setitem(COMMANDS, "generate", replace(COMMANDS["generate"], handler=fail))
        await bench.press("ctrl+n")
        assert bench.app.screen is bench.screen, "no dialog takes the keys of a text"
        assert "RuntimeError: a defect" in bench.app.messages.current[-1].words
        report = next(paths.log_dir().glob("crash-*.txt"))
        assert "a defect" in report.read_text()
        await bench.press(*" Hard", "ctrl+s")
        assert bench.session.text() == "It rained. Hard"
        assert bench.screen.defects == ["RuntimeError('a defect')"]
        bench.screen.defects.clear()


async def test_a_fatal_defect_leaves_the_story_and_words_instead_of_code(open_bench: OpenBench) -> None:
    with pytest.raises(RuntimeError, match="fatal"):
        async with open_bench() as bench:
            await bench.press(*" Hard")

            def fail() -> None:
                raise RuntimeError("fatal")

            bench.app.call_later(fail)
            await bench.pilot.pause()
    assert bench.session.closed
    assert any("fatal" in file.read_text() for file in paths.log_dir().glob("crash-*.txt"))


async def test_a_model_that_cannot_be_loaded_is_explained_once(open_bench: OpenBench) -> None:
    async with open_bench(ready=False) as bench:
        await bench.press(*"hell")
        bench.session.fail_loading(ModelError("/nowhere/x.gguf", "is missing", "check the path"))
        await bench.press(*"o reader")
        assert bench.app.screen is bench.screen, "no dialog takes the keys of a text"
        assert bench.screen.editor.text == "It rained.hello reader"
        assert "is missing" in bench.screen.status_line.line
        [words] = [message.words for message in bench.app.messages.all]
        assert words.startswith("The model cannot be loaded.")
        assert "check the path. “Change the model” in the menu (^g) chooses another" in words
        bench.screen.pump.flush()
        assert len(bench.app.messages.all) == 1
        await bench.choose("model")
        assert isinstance(bench.app.screen, ModelTrouble)
        assert "check the path" in bench.app.screen.query("Static").first().render().plain  # type: ignore[union-attr]
        await bench.press("enter")
        await bench.pilot.pause()
        assert isinstance(bench.app.screen, Picker)
        await bench.press("escape")
        assert bench.app.screen is bench.screen


async def test_escape_gives_up_a_load_and_says_what_can_be_done(open_bench: OpenBench) -> None:
    async with open_bench(ready=False) as bench:
        await bench.press("ctrl+n", "escape")
        assert "was stopped" in bench.app.messages.current[-1].words
        assert bench.session.round is None
        await bench.choose("model")
        assert isinstance(bench.app.screen, ModelTrouble)
        await bench.press("r")
        assert bench.app.screen is bench.screen and bench.session.engine_state != "FAILED"
        await bench.press("escape")
        assert bench.app.screen is bench.screen and bench.session.engine_state == "FAILED"
        await bench.press("x")
        bench.session.keep()
        assert "x" in bench.session.text()


async def test_another_story_is_opened_with_the_model_that_is_loaded(
    open_bench: OpenBench, tmp_path: Path
) -> None:
    async with open_bench() as bench:
        bench.app.open_story(tmp_path / "other.srbw")
        await bench.pilot.pause()
    assert bench.session.closed and bench.session.kept_model
    async with open_bench() as bench:
        await bench.press("ctrl+q")
    assert bench.session.closed and not bench.session.kept_model


async def test_a_changed_layout_is_remembered(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press("ctrl+l")
    remembered, complaints = read_overlay(Table(OPTIONS))
    assert remembered[LAYOUT.name] == "right"
    assert not complaints


async def test_the_progress_of_reading_is_shown(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        bench.session.generate()
        bench.session.engine.progress(bench.session.round.generation, 62, 100)
        bench.screen.pump.flush()
        assert "reading 62 %" in bench.screen.grid.panes[0].head
        assert "62%" in bench.screen.status_line.line


def test_the_editor_is_the_writers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "code --wait")
    assert external.editor() == ["code", "--wait"]
    monkeypatch.delenv("VISUAL")
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(external.NoEditor, match="VISUAL"):
        external.editor()


def test_the_desktops_clipboard_is_used_where_there_is_a_desktop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = tmp_path / "wl-copy"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert external.native_tool() is None
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert external.native_tool() == [str(tool)]
