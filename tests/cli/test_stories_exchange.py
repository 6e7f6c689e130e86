"""Export and import from the shell."""

from __future__ import annotations

import io
import json
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from srbwriter.cli.exits import Exit
from srbwriter.story import ROOT, Story

from .stories import library_files, make

FIXTURES = Path(__file__).parent.parent / "story" / "fixtures"


# ---- export


@pytest.mark.parametrize("extension", ["json", "md", "txt", "html", "epub"])
def test_the_extension_is_the_format(run: Any, tmp_path: Path, extension: str) -> None:
    make()
    file = tmp_path / f"orchard.{extension}"
    assert run("export", "orchard", "-o", str(file)) == (Exit.OK, "", "")
    data = file.read_bytes()
    if extension == "epub":
        with zipfile.ZipFile(io.BytesIO(data)) as book:
            assert book.namelist()[0] == "mimetype"
            data = b"".join(book.read(name) for name in book.namelist())
    assert b"It was spring." in data


def test_a_format_can_be_named_and_written_to_standard_output(run: Any, tmp_path: Path) -> None:
    make()
    assert run("export", "orchard", "-o", "-", "--format", "text")[1] == "It was spring."
    assert "It was spring." in run("export", "orchard")[1]
    file = tmp_path / "tree.json"
    assert run("export", "orchard", "-o", str(file), "--format", "loom")[0] == Exit.OK
    assert {"root"} <= json.loads(file.read_text()).keys()


def test_an_exported_story_comes_back(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "o.json"
    run("export", str(make()), "-o", str(file))
    back = Path(run("import", str(file))[1].strip())
    with Story.open(back, readonly=True) as story:
        assert story.title == "The Orchard"
        assert sorted(story.node(node).text for node in story.reading_order(ROOT)) == [
            "", " One.", " Two.", "It was spring."
        ]  # fmt: skip


def test_a_file_that_is_there_is_replaced_only_by_force(run: Any, tmp_path: Path) -> None:
    make()
    file = tmp_path / "o.txt"
    file.write_text("mine")
    code, _, err = run("export", "orchard", "-o", str(file))
    assert code == Exit.USAGE and "--force" in err and file.read_text() == "mine"
    assert run("export", "orchard", "-o", str(file), "--force")[0] == Exit.OK
    assert file.read_text() == "It was spring."


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("-o", "o.pdf"), ".json .md .txt .html .epub"),
        (("-o", "o"), "(none)"),
        (("--format", "novelai"), "no format to export to is called novelai; there are srbwriter"),
        (("-o", "none/o.txt"), "none: there is no such folder"),
    ],
)
def test_what_cannot_be_written_is_said_first(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], words: str
) -> None:
    make()
    monkeypatch.chdir(tmp_path)
    code, out, err = run("export", "orchard", *flags)
    assert code in (Exit.USAGE, Exit.ERROR) and not out and words in err
    assert not list(tmp_path.iterdir())


def test_a_book_is_not_for_a_terminal(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, err = run("export", "orchard", "--format", "epub")
    assert (code, out) == (Exit.USAGE, "") and "name a file with -o" in err


def test_the_formats_are_listed(run: Any) -> None:
    _, out, _ = run("export", "any", "--format", "list")
    assert [line.split()[0] for line in out.splitlines()][:2] == ["srbwriter", "mikupad"]


# ---- import


def test_files_of_other_programs_become_stories(run: Any) -> None:
    files = [FIXTURES / name for name in ("loom.json", "mikupad.json", "story.md", "sillytavern.jsonl")]
    code, out, _ = run("import", *map(str, files))
    assert code == Exit.OK and len(out.splitlines()) == len(files)
    for line in out.splitlines():
        with Story.open(line, readonly=True) as story:
            assert len(story) > 1


def test_a_name_says_nothing_about_a_file(run: Any, tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "loom.json", tmp_path / "notes.txt")
    path = run("import", str(tmp_path / "notes.txt"), "--title", "Trees")[1].strip()
    with Story.open(path, readonly=True) as story:
        assert story.title == "Trees" and len(story) > 2


def test_text_comes_from_standard_input(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Es war einmal.\n")))
    path = run("import", "-", "--title", "Märchen")[1].strip()
    with Story.open(path, readonly=True) as story:
        assert story.text(story.current) == "Es war einmal.\n"


def test_a_file_that_is_broken_makes_no_story(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_text('{"text": "a", "children": [{"text": 5, "children": []}]}')
    code, out, err = run("import", str(file))
    assert (code, out) == (Exit.ERROR, "")
    assert "broken.json: at " in err and "children[0]" in err and "expected" in err and "defect" not in err
    assert not library_files()


def test_importing_never_overwrites(run: Any, tmp_path: Path) -> None:
    target = make(path=tmp_path / "o.srbw")
    before = target.read_bytes()
    code, _, err = run("import", str(FIXTURES / "story.txt"), "-o", str(target))
    assert code == Exit.ERROR and "already there" in err and target.read_bytes() == before
    code, _, err = run("import", str(FIXTURES / "story.txt"), str(FIXTURES / "story.md"), "-o", "x.srbw")
    assert code == Exit.USAGE and "one story" in err


def test_a_missing_import_is_said(run: Any) -> None:
    code, _, err = run("import", "/nowhere/x.json")
    assert code == Exit.ERROR and "/nowhere/x.json" in err and "defect" not in err
