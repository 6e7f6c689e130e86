"""Export and import from the shell."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from srbwriter import formats
from srbwriter.cli.exits import Exit
from srbwriter.story import Story
from tests.formats.files import format_of, shape

from .stories import library_files, make

FIXTURES = Path(__file__).parent.parent / "formats" / "fixtures"


# ---- export


def test_the_extension_is_the_format(run: Any, tmp_path: Path) -> None:
    make()
    for extension in ("json", "md", "txt", "epub", "docx"):
        file = tmp_path / f"orchard.{extension}"
        assert run("export", "orchard", "-o", str(file)) == (Exit.OK, "", "")
        data = file.read_bytes()
        if extension in ("epub", "docx"):
            with zipfile.ZipFile(io.BytesIO(data)) as book:
                assert book.namelist()[0] == ("mimetype" if extension == "epub" else "[Content_Types].xml")
                data = b"".join(book.read(name) for name in book.namelist())
        assert b"It was spring." in data
    for name, form in (
        ("orchard.JSON", "srbwriter"),
        ("orchard.epub.json", "srbwriter"),
    ):
        assert run("export", "orchard", "-o", str(tmp_path / name)) == (Exit.OK, "", "")
        assert format_of((tmp_path / name).read_bytes()) == form


def test_a_format_can_be_named_and_written_to_standard_output(run: Any, tmp_path: Path) -> None:
    make()
    assert run("export", "orchard", "-o", "-", "--format", "text")[1] == "It was spring."
    assert "It was spring." in run("export", "orchard")[1]
    file = tmp_path / "tree.json"
    assert run("export", "orchard", "-o", str(file), "--format", "json")[0] == Exit.OK
    assert {"story"} <= json.loads(file.read_text()).keys()


def test_a_file_that_is_there_is_replaced_only_by_force(run: Any, tmp_path: Path) -> None:
    make()
    file = tmp_path / "o.txt"
    file.write_text("mine")
    code, _, err = run("export", "orchard", "-o", str(file))
    assert code == Exit.USAGE and "--force" in err and file.read_text() == "mine"
    assert run("export", "orchard", "-o", str(file), "--force")[0] == Exit.OK
    assert file.read_text() == "It was spring."


def test_what_cannot_be_written_is_said_first(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make()
    monkeypatch.chdir(tmp_path)
    for flags, words in (
        (("-o", "o.pdf"), ".json .docx .epub .md .txt"),
        (("-o", "o"), "(none)"),
        (("--format", "novelai"), "--format: invalid choice: 'novelai' (choose from"),
        (("-o", "none/o.txt"), "none/o.txt: there is no such file"),
        (("--format", "text", "-o", "/dev/full"), "/dev/full: is there already — choose another name"),
    ):
        code, out, err = run("export", "orchard", *flags)
        assert code in (Exit.USAGE, Exit.ERROR) and not out and words in err
    assert not list(tmp_path.iterdir())


# ---- import


@pytest.mark.parametrize(
    "file",
    ("loom.json", "novelai.story", "book.epub"),
)
def test_files_of_other_programs_become_stories(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """From the shell, by what is in them: under a name that says nothing, and without a name."""
    data = (FIXTURES / file).read_bytes()
    whole = formats.read(data, file)
    with Story.from_draft(tmp_path / "whole.srbw", whole) as story:
        expected = shape(story.draft())
    (tmp_path / "a file").write_bytes(data)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    for source in (str(tmp_path / "a file"), "-"):
        code, out, err = run("import", source)
        assert code == Exit.OK and len(err.splitlines()) == len(whole.notices)
        with Story.open(out.strip(), readonly=True) as story:
            assert shape(story.draft()) == expected


def test_a_file_that_is_broken_costs_no_other_its_import(run: Any, tmp_path: Path) -> None:
    for name, text in (("a.md", "# A"), ("b.json", '{"a":'), ("c.md", "# C")):
        (tmp_path / name).write_text(text)
    code, _, err = run("import", *(str(tmp_path / name) for name in ("a.md", "b.json", "none", "c.md")))
    assert code == Exit.ERROR and "b.json: at line 1" in err and "none: there is no such file" in err
    assert library_files() == {"a.srbw", "c.srbw"}


def test_text_comes_from_standard_input(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    code, _, err = run("import", "-")
    assert code == Exit.ERROR and "standard input is empty" in err and not library_files()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Es war einmal.\n")))
    path = run("import", "-", "--title", "Märchen")[1].strip()
    with Story.open(path, readonly=True) as story:
        assert (story.title, story.text(story.current)) == ("Märchen", "Es war einmal.\n")


def test_importing_never_overwrites(run: Any, tmp_path: Path) -> None:
    target = make(path=tmp_path / "o.srbw")
    before = target.read_bytes()
    code, _, err = run("import", str(FIXTURES / "story.txt"), "-o", str(target))
    assert code == Exit.ERROR and "already there" in err and target.read_bytes() == before


UNREADABLE = (
    ("empty.txt", b"", "is empty — there is nothing to import"),
    ("blank.txt", b"\n \n", "is empty — there is nothing to import"),
    ("tale.pdf", b"%PDF-1.7", "is a PDF, which has places of letters and no text"),
    ("tale.txt", "É tarde.".encode("cp1252"), "`srbwriter import --encoding cp1252`"),
    ("tale.json", b'{"Hello," she said.', "if it is a text, `srbwriter import --format text`"),
    ("notes.json", b'[{"b": 1, "a": 2}]', "is JSON with no keys at the top level"),
    ("tale.xml", b"<?xml version='1.0'?><a/>", "`srbwriter import --format text` takes it as it stands"),
)  # fmt: skip


def test_what_cannot_be_imported_is_said_with_the_cure(run: Any, tmp_path: Path) -> None:
    for name, data, words in UNREADABLE:
        file = tmp_path / name
        file.write_bytes(data)
        code, out, err = run("import", str(file))
        assert (code, out) == (Exit.ERROR, "") and str(file) in err and words in err, name
        assert not library_files() and "defect" not in err
    for flags, wanted, words in (
        (("--encoding", "klingon"), Exit.ERROR, "klingon is no encoding of text"),
        (("--format", "pages"), Exit.USAGE, "--format: invalid choice: 'pages' (choose from"),
    ):
        code, _, err = run("import", *flags, str(tmp_path / "tale.txt"))
        assert code == wanted and words in err and not library_files()


def test_a_folder_and_several_files_become_one_story(run: Any, tmp_path: Path) -> None:
    folder = tmp_path / "Orchard"
    folder.mkdir()
    for name, words in (("10.txt", "Ten."), ("2.md", "# Two\n\nTwo."), ("1 - One.txt", "One.")):
        (folder / name).write_text(words)
    code, out, err = run("import", str(folder))
    assert (code, out) == (Exit.ERROR, "") and "name a file in it; `srbwriter import --as-one`" in err
    code, out, err = run("import", str(folder), "--as-one")
    assert (code, err) == (Exit.OK, "")
    with Story.open(out.strip(), readonly=True) as story:
        assert story.title == "Orchard"
        assert story.text(story.current) == "# One\n\nOne.\n\n# Two\n\nTwo.\n\n# 10\n\nTen."
    files = (str(folder / "10.txt"), str(folder / "2.md"))
    target = tmp_path / "both.srbw"
    code, out, err = run("import", *files, "--as-one", "--title", "Both", "-o", str(target))
    assert (code, out, err) == (Exit.OK, f"{target}\n", "")
    with Story.open(target, readonly=True) as story:
        assert (story.title, story.text(story.current)) == ("Both", "# 10\n\nTen.\n\n# Two\n\nTwo.")
