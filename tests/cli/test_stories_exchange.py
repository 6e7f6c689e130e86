"""Export and import from the shell."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from srbwriter.cli.exits import Exit
from srbwriter.story import ROOT, Properties, Story, formats
from tests.story.format_files import shape

from .stories import library_files, make

FIXTURES = Path(__file__).parent.parent / "story" / "fixtures"


# ---- export


@pytest.mark.parametrize("extension", ["json", "md", "txt", "html", "epub", "docx"])
def test_the_extension_is_the_format(run: Any, tmp_path: Path, extension: str) -> None:
    make()
    file = tmp_path / f"orchard.{extension}"
    assert run("export", "orchard", "-o", str(file)) == (Exit.OK, "", "")
    data = file.read_bytes()
    if extension in ("epub", "docx"):
        with zipfile.ZipFile(io.BytesIO(data)) as book:
            assert book.namelist()[0] == ("mimetype" if extension == "epub" else "[Content_Types].xml")
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


def test_not_even_force_replaces_what_is_no_file(run: Any, tmp_path: Path) -> None:
    """Such as /dev/null, by somebody who may."""
    make()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code, _, err = run("export", "orchard", "--format", "text", "-o", str(pipe), "--force")
    assert code == Exit.ERROR and f"{pipe}: is a pipe — name a file, or - for standard output" in err
    assert pipe.is_fifo() and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "command", [("import", str(FIXTURES / "story.md")), ("new", "The Mill"), ("backup", "restore", "orchard")]
)
def test_a_story_gets_no_name_of_another_format(run: Any, tmp_path: Path, command: tuple[str, ...]) -> None:
    """Whoever names one wants a file of that format."""
    make()
    run("backup", "make", "orchard")
    code, out, err = run(*command, "-o", str(tmp_path / "tale.docx"))
    assert (code, out) == (Exit.USAGE, "") and not list(tmp_path.iterdir())
    assert "tale.docx: a story ends in .srbw; `srbwriter export` makes a .docx of one" in err


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


@pytest.mark.parametrize("form", ["epub", "docx"])
def test_a_book_is_not_for_a_terminal(run: Any, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    make()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, err = run("export", "orchard", "--format", form)
    assert (code, out) == (Exit.USAGE, "") and "name a file with -o" in err


@pytest.mark.parametrize("arguments", [("export", "any"), ("export",), ("import",)])
def test_the_formats_are_listed_without_a_story(run: Any, arguments: tuple[str, ...]) -> None:
    code, out, err = run(*arguments, "--format", "list")
    names = {line.split()[0] for line in out.splitlines()}
    assert (code, err) == (Exit.OK, "") and {"srbwriter", "mikupad", "docx", "html"} <= names
    assert ("epub" in names) == (arguments[0] == "export")
    assert ("novelai" in names) == (arguments[0] == "import")


def test_a_command_without_its_file_says_what_is_missing(run: Any) -> None:
    for command, question in (("export", "which story?"), ("import", "which file?")):
        code, out, err = run(command)
        assert (code, out) == (Exit.USAGE, "") and question in err


def test_what_a_book_says_of_itself_comes_from_the_story(run: Any, tmp_path: Path) -> None:
    make()
    run("info", "orchard", "--author", "Ada L.", "--language", "pt_br")
    identifiers: list[str] = []
    for number in (1, 2):
        file = tmp_path / f"{number}.epub"
        assert run("export", "orchard", "-o", str(file))[0] == Exit.OK
        with zipfile.ZipFile(file) as book:
            package = book.read("EPUB/package.opf").decode()
        assert "<dc:creator>Ada L.</dc:creator>" in package and "<dc:language>pt-BR<" in package
        identifiers += re.findall("urn:uuid:[-0-9a-f]+", package)
        run("rename", "orchard", "Another orchard")
    assert identifiers == [f"urn:uuid:{json.loads(run('info', 'another', '--json')[1])['id']}"] * 2
    assert "author: Ada L.\nlang: pt-BR\n" in run("export", "another", "--format", "markdown")[1]
    page = run("export", "another", "--format", "html")[1]
    assert '<meta name="author" content="Ada L.">' in page and '<html lang="pt-BR">' in page


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


def test_a_file_that_is_broken_costs_no_other_its_import(run: Any, tmp_path: Path) -> None:
    for name, text in (("a.md", "# A"), ("b.json", '{"a":'), ("c.md", "# C")):
        (tmp_path / name).write_text(text)
    code, _, err = run("import", *(str(tmp_path / name) for name in ("a.md", "b.json", "none", "c.md")))
    assert code == Exit.ERROR and "b.json: at line 1" in err and "none: there is no such file" in err
    assert library_files() == {"a.srbw", "c.srbw"}


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
    assert code == Exit.USAGE and "/nowhere/x.json: there is no such file" in err and "defect" not in err


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("empty.txt", b"", "is empty — there is nothing to import"),
        ("blank.txt", b"\n \n", "holds nothing but white space"),
        ("tale.srbw", b"It was late.", "has the name of a story and is none"),
        ("tale.rtf", rb"{\rtf1 It was late.}", "is RTF — save it as .docx"),
        ("tale.txt", "É tarde.".encode("cp1252"), "`srbwriter import --encoding cp1252` reads it"),
        (
            "tale.json",
            b'{"Hello," she said.',
            "if it is a text, `srbwriter import --format text`",
        ),
        ("notes.json", b'[{"b": 1, "a": 2}]', "is a JSON list of 1 item with the keys a, b, and"),
        ("numbers.json", b"[1, 2]\n", "is a JSON list of 2 items such as 1, and of no story format"),
        ("nothing.json", b"[null]", "is a JSON list of 1 item such as null, and of no story format"),
        ("list.json", b'["a", "b"]', 'is a JSON list of 2 items such as "a", and of no story format'),
        (
            "style.module",
            b'{"data": "AAAA", "model": "6B", "name": "Style", "description": "x", "mode": 0}',
            "is a NovelAI module (.module)",
        ),
        ("tale.tw", b":: Start\n[[Go]]\n", "`srbwriter import --format text` takes it as it stands"),
    ],
)
def test_what_cannot_be_imported_is_said_with_the_cure(
    run: Any, tmp_path: Path, name: str, data: bytes, words: str
) -> None:
    file = tmp_path / name
    file.write_bytes(data)
    code, out, err = run("import", str(file))
    assert (code, out) == (Exit.ERROR, "") and str(file) in err and words in err
    assert not library_files() and "defect" not in err


def test_a_pipe_is_not_waited_for(run: Any, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code, _, err = run("import", str(pipe))
    assert code == Exit.ERROR and f"{pipe}: is a pipe — cat {pipe} | srbwriter import -" in err
    assert not library_files()


def test_a_device_is_no_place_for_an_export(run: Any) -> None:
    make()
    code, _, err = run("export", "orchard", "--format", "text", "-o", "/dev/full")
    assert code == Exit.ERROR and "/dev/full: is a device — name a file, or - for standard output" in err


def test_a_device_is_no_file(run: Any) -> None:
    code, _, err = run("import", "/dev/null")
    assert code == Exit.ERROR and "/dev/null: is a device" in err and not library_files()


def test_nothing_on_standard_input_makes_no_story(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    code, _, err = run("import", "-")
    assert code == Exit.ERROR and "standard input is empty" in err and not library_files()


def test_the_cures_work(run: Any, tmp_path: Path) -> None:
    french, twee = tmp_path / "french.txt", tmp_path / "tale.tw"
    french.write_bytes("Où vas-tu, « fée » ?".encode("cp1252"))
    twee.write_text(":: Start\n[[Go]]\n")
    for file, flags, text in (
        (french, ("--encoding", "cp1252"), "Où vas-tu, « fée » ?"),
        (twee, ("--format", "text"), ":: Start\n[[Go]]\n"),
    ):
        code, out, _ = run("import", *flags, str(file))
        assert code == Exit.OK
        with Story.open(out.strip(), readonly=True) as story:
            assert story.text(story.current) == text


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--encoding", "klingon"), Exit.ERROR, "klingon is no encoding of text"),
        (("--format", "epub"), Exit.USAGE, "no format to import is called epub; there are srbwriter"),
    ],
)
def test_names_that_mean_nothing_are_refused(
    run: Any, tmp_path: Path, flags: tuple[str, str], code: Exit, words: str
) -> None:
    (tmp_path / "a.txt").write_text("Text.")
    found, _, err = run("import", *flags, str(tmp_path / "a.txt"))
    assert found == code and words in err and not library_files()


def test_a_document_becomes_a_story_with_its_author(run: Any, tmp_path: Path) -> None:
    make()
    run("info", "orchard", "--author", "Ada", "--language", "de")
    file = tmp_path / "o.docx"
    run("export", "orchard", "-o", str(file))
    back = Path(run("import", str(file))[1].strip())
    with Story.open(back, readonly=True) as story:
        assert story.properties == Properties("The Orchard", "Ada", "de")
        assert story.text(story.current) == "It was spring."
