"""The app: keys of the writer's own, themes on the fly, defects, trouble with the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srbwriter import paths
from srbwriter.engine.types import InvalidRequest, ModelError
from srbwriter.tui import clipboard
from srbwriter.tui.commands import COMMANDS
from srbwriter.tui.dialogs.picker import Picker
from tests.tui.conftest import OpenBench
from tests.tui.steps import visible


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
        assert bench.app.said == ["n: too many"]
        assert bench.app.screen is bench.screen
        monkeypatch.setitem(COMMANDS, "generate", replace(COMMANDS["generate"], handler=fail))
        await bench.press("ctrl+n")
        assert bench.app.screen is bench.screen, "no dialog takes the keys of a text"
        assert "RuntimeError: a defect" in bench.last_said
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
        assert "is missing" in bench.status
        [words] = bench.app.said
        assert words.startswith("The model cannot be loaded.")
        assert "check the path. “Change the model” in the menu (^g) chooses another" in words
        bench.screen.pump.flush()
        assert len(bench.app.said) == 1
        await bench.choose("model")
        assert "check the path" in visible(bench)
        assert isinstance(bench.app.screen, Picker)
        await bench.press("escape")
        assert bench.app.screen is bench.screen


async def test_escape_gives_up_a_load_and_says_what_can_be_done(open_bench: OpenBench) -> None:
    async with open_bench(ready=False) as bench:
        await bench.press("ctrl+n", "escape")
        assert "was stopped" in bench.last_said
        assert bench.session.round is None
        await bench.choose("model")
        await bench.press("enter")
        assert bench.app.screen is bench.screen and bench.session.engine_state != "FAILED"
        await bench.press("escape")
        assert bench.app.screen is bench.screen and bench.session.engine_state == "FAILED"
        await bench.press("x")
        bench.session.keep()
        assert "x" in bench.session.text()


async def test_another_story_is_opened_with_the_model_that_is_loaded(
    open_bench: OpenBench, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.srbw"
    bad.write_text("no story")
    async with open_bench() as bench:
        engine = bench.session.engine
        bench.app.open_story(tmp_path / "other.srbw", ["It is new."])
        await bench.pilot.pause()
        assert bench.session.closed and bench.session.kept_model
        assert bench.last_said == "It is new."
        assert bench.app.session.story.file.name == "other.srbw" and bench.app.session.engine is engine
        bench.app.open_story(bad)
        await bench.pilot.pause()
        assert "bad.srbw" in bench.last_said
        assert bench.app.session.story.file.name == "other.srbw", "the one before comes back"
    async with open_bench() as bench:
        await bench.press("ctrl+q")
    assert bench.session.closed and not bench.session.kept_model


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
    assert clipboard.native_tool() is None
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert clipboard.native_tool() == [str(tool)]


async def test_a_message_takes_the_place_of_the_one_before_but_not_of_an_error(open_bench: OpenBench) -> None:
    async with open_bench() as bench:

        async def shown(words: str, **severity: Any) -> list[str]:
            bench.app.notify(words, **severity)
            await bench.pilot.pause()
            return [toast.message for toast in bench.app._notifications]

        await shown("Saved.")
        assert await shown("Copied.") == ["Copied."]
        assert await shown("The disk is full.", severity="error") == ["The disk is full."]
        assert await shown("Nothing to undo.") == ["The disk is full.", "Nothing to undo."]
