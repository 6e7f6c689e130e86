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
from srbwriter.story import ROOT, Story, formats
from tests.story.format_files import shape

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


@pytest.mark.parametrize("name", ["loom", "loomsidian", "mikupad", "srbwriter"])
def test_a_program_before_the_extension_is_the_format(run: Any, tmp_path: Path, name: str) -> None:
    make()
    file = tmp_path / f"orchard.{name}.JSON"
    assert run("export", "orchard", "-o", str(file)) == (Exit.OK, "", "")
    assert formats.detect(file.read_bytes()).name == name


def test_another_word_before_the_extension_says_nothing(run: Any, tmp_path: Path) -> None:
    make()
    for name in ("orchard.draft.json", "orchard.epub.json", ".json.json"):
        assert run("export", "orchard", "-o", str(tmp_path / name))[0] == Exit.OK
        assert formats.detect((tmp_path / name).read_bytes()).name == "srbwriter"


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
        (("-o", "o.pdf"), ".json .html .docx .md .txt .epub"),
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


@pytest.mark.parametrize("file", sorted(path.name for path in FIXTURES.iterdir()))
def test_files_of_other_programs_become_stories(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """From the shell, by what is in them: under a name that says nothing, and without a name."""
    data = (FIXTURES / file).read_bytes()
    whole = formats.read(data, file)
    (tmp_path / "a file").write_bytes(data)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    for source in (str(tmp_path / "a file"), "-"):
        code, out, err = run("import", source)
        assert code == Exit.OK and len(err.splitlines()) == len(whole.meta.get("notices", []))
        with Story.open(out.strip(), readonly=True) as story:
            assert shape(story.to_draft()) == shape(whole)


def test_several_files_become_a_story_each(run: Any) -> None:
    code, out, _ = run("import", str(FIXTURES / "loom.json"), str(FIXTURES / "weave.tapestry"))
    assert code == Exit.OK and len(out.splitlines()) == 2


def test_what_is_broken_in_a_file_is_said_and_the_rest_is_imported(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "torn.json"
    file.write_text('{"text": "a", "children": [{"text": "b", "children": []}, 7]}')
    code, out, err = run("import", str(file))
    assert code == Exit.OK and err.endswith(f"{file}: children[1]: left out; expected an object\n")
    with Story.open(out.strip(), readonly=True) as story:
        assert [node.text for node in story.to_draft().nodes] == ["a", "b"]


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
    file.write_text('{"text": "a", "children": [{"text": "b", "chi')
    code, out, err = run("import", str(file))
    assert (code, out) == (Exit.ERROR, "")
    assert "broken.json: at line 1, column" in err and "expected JSON" in err and "defect" not in err
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
