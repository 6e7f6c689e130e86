"""Export and import: how far they are, how they are stopped, and what is said when they fail.

That both do what they say is among the scenarios of commands.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from srbwriter import paths
from srbwriter.formats import transfer
from srbwriter.tui.dialogs.ask import Confirm
from srbwriter.tui.tree.screen import TreeScreen
from tests.tui.conftest import Bench, OpenBench
from tests.tui.steps import answer, ended, opened


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that the program was started in."""
    own = tmp_path / "here"
    own.mkdir()
    monkeypatch.chdir(own)
    yield own


def library() -> list[str]:
    there = paths.library_dir()
    return sorted(file.name for file in there.iterdir()) if there.is_dir() else []


async def asked(bench: Bench, command: str, name: str) -> None:
    bench.screen.run(command)
    await answer(bench, name)


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A pipe that every import and export waits for; writing into it lets one go on."""
    pipe = tmp_path / "gate"
    os.mkfifo(pipe)
    begin = transfer._child
    wait = ["sh", "-c", 'read -r _ <"$0"; exec "$@"', str(pipe)]
    popen = subprocess.Popen

    def held() -> subprocess.Popen[bytes]:
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", lambda command, **options: popen([*wait, *command], **options))
            return begin()

    monkeypatch.setattr(transfer, "_child", held)
    yield pipe
    with suppress(OSError):  # one that was given up waits there still
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))


async def endless(bench: Bench, folder: Path) -> None:
    """Start an import that the gate holds."""
    (folder / "endless.json").write_text("{}")
    await asked(bench, "import", "endless.json")


# ---- how far it is


async def test_the_line_says_what_is_done_and_escape_stops_it_at_once(
    open_bench: OpenBench, folder: Path, gate: Path
) -> None:
    async with open_bench() as bench:
        await endless(bench, folder)
        line = bench.status
        assert "importing endless.json ░" in line and "0%  ·  esc stops" in line
        await bench.press(*" Hard")
        assert bench.screen.editor.text == "It rained. Hard"
        assert "importing" in bench.status
        await asked(bench, "export", "rain.md")
        assert "The import of endless.json is still running; esc stops it" in bench.said
        assert "importing" in bench.screen.status_line.left[0]
        bench.screen.run("back")
        left = bench.screen.status_line.left  # which a message hides
        assert "stopping the import" in " ".join(left) or not bench.app.transfers.busy
        await ended(bench)
        assert "The import of endless.json was stopped" in bench.said
        assert not library() and bench.app.session is bench.session
        assert "importing" not in " ".join(bench.screen.status_line.left)


# ---- stopping


async def test_leaving_gives_it_up_only_when_the_writer_says_so_twice(
    open_bench: OpenBench, folder: Path, gate: Path
) -> None:
    async with open_bench() as bench:
        await endless(bench, folder)
        await bench.press("ctrl+q")
        assert "still running" in bench.said and not bench.session.closed
        await bench.press("ctrl+q")
    assert bench.session.closed and not library()


# ---- files that are there, and names that cannot be


async def test_a_file_is_replaced_only_if_the_writer_says_yes(open_bench: OpenBench, folder: Path) -> None:
    file = folder / "rain.txt"
    file.write_text("mine")
    async with open_bench() as bench:
        for key in ("escape", "r"):
            await asked(bench, "export", "rain.txt")
            await opened(bench, Confirm)
            await bench.press(key)
            await ended(bench)
            assert file.read_text() == ("It rained." if key == "r" else "mine"), key


UNREADABLE = {
    "absent.json": (None, "absent.json: there is no such file — check the name, and that its disk is there"),
    "cut.json": (b'{"text": "a", "children": [{"text": ', "cut.json: at "),
    "binary.json": (b"\0\1\2", "has zeros in it, and no text has"),
}


async def test_a_file_that_cannot_be_read_is_said_and_the_desk_stays(
    open_bench: OpenBench, folder: Path
) -> None:
    async with open_bench() as bench:
        for name, (content, words) in UNREADABLE.items():
            if content is not None:
                (folder / name).write_bytes(content)
            bench.app.said.clear()
            await asked(bench, "import", name)
            await ended(bench)
            assert words in bench.said and str(folder) in bench.said
            assert bench.app.screen is bench.screen and not library()
        await bench.press(*" On")
        assert bench.screen.editor.text == "It rained. On"


# ---- the story that comes out


async def test_an_imported_story_waits_until_the_writer_is_at_the_desk(
    open_bench: OpenBench, folder: Path, gate: Path
) -> None:
    (folder / "tale.txt").write_text("Once.")
    async with open_bench() as bench:
        await asked(bench, "import", str(folder / "tale.txt"))
        await bench.press("f3")
        await opened(bench, TreeScreen)
        gate.write_text("go on\n")
        work = bench.app.transfers._process
        assert work is not None and work.wait(60)
        bench.screen.pump.flush()
        assert bench.app.session is bench.session
        await bench.press("escape")
        await ended(bench)
        made = bench.app.session.story.file
        assert made == paths.library_dir() / "tale.srbw"
        assert f"Imported {folder / 'tale.txt'} as {made}." in bench.app.said


async def test_a_folder_becomes_one_story(open_bench: OpenBench, folder: Path) -> None:
    (folder / "Orchard").mkdir()
    for name, words in (("10.txt", "Ten."), ("2 - Rain.txt", "It rained.")):
        (folder / "Orchard" / name).write_text(words)
    async with open_bench() as bench:
        await asked(bench, "import", "Orchard")
        await ended(bench)
        story = bench.app.session.story
        assert story.file == paths.library_dir() / "Orchard.srbw"
        assert story.text(story.current) == "# Rain\n\nIt rained.\n\n# 10\n\nTen."
