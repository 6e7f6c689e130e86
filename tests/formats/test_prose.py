"""Formats for reading: Markdown, plain text, EPUB, HTML."""

from __future__ import annotations

import io
import re
import zipfile
from xml.etree import ElementTree

import pytest

from srbwriter import formats
from srbwriter.story.draft import StoryDraft
from srbwriter.story.node import Node
from tests.formats.files import notices, path_text, tale

XHTML = "{http://www.w3.org/1999/xhtml}"
OPF = "{http://www.idpf.org/2007/opf}"
DC = "{http://purl.org/dc/elements/1.1/}"


def test_plain_text_is_exactly_the_active_path() -> None:
    draft = tale(" a\n", "\n  b ")
    draft.nodes[99] = Node(99, 1, 1, text="not on the path")
    assert formats.write(draft, "text") == b" a\n\n  b "


ORCHARD = (
    "# The *first* part\n\nIt was **late**. He said “no”.\nA line.\n\n***\n\n*All of it.* 5 * 3 & 1 < 2.\n\n"
    "## Two\n\nThe end…"
)


@pytest.mark.parametrize("form", ["markdown", "epub", "docx"])
def test_a_story_comes_back_without_its_branches(form: str) -> None:
    draft = tale(ORCHARD[:30], ORCHARD[30:], title="A & B", byline="Ada", language="de")
    draft.nodes[99] = Node(99, 1, 1, text="Elsewhere.")
    back = formats.read(formats.write(draft, form), f"a.{form}")
    assert path_text(back).replace("* * *", "***") == ORCHARD and notices(back) == []
    assert not any("Elsewhere" in node.text for node in back.nodes.values())
    assert (back.title, back.byline, back.language) == ("A & B", "Ada", "de")
    assert len(back.nodes) == 3, "a node for each chapter"


def open_epub(draft: StoryDraft) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(formats.write(draft, "epub")))


def paragraphs(archive: zipfile.ZipFile, name: str) -> list[str]:
    page = ElementTree.fromstring(archive.read(name))
    return ["".join(paragraph.itertext()) for paragraph in page.iter(f"{XHTML}p")]


def test_an_epub_is_put_together_as_the_standard_says() -> None:
    draft = tale("One & two <three>.\n\nFour\nfive.", title="A & B")
    draft.byline, draft.language = "Ada <x>", "de"
    archive = open_epub(draft)
    first = archive.infolist()[0]
    assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
    assert archive.read("mimetype") == b"application/epub+zip"
    assert not first.extra
    container = ElementTree.fromstring(archive.read("META-INF/container.xml"))
    (rootfile,) = container.iter("{urn:oasis:names:tc:opendocument:xmlns:container}rootfile")
    package = ElementTree.fromstring(archive.read(rootfile.attrib["full-path"]))
    assert package.attrib["version"] == "3.0"
    assert package.findtext(f".//{DC}title") == "A & B"
    assert package.findtext(f".//{DC}creator") == "Ada <x>"
    assert package.findtext(f".//{DC}language") == "de"
    identifier = package.find(f".//{DC}identifier")
    assert identifier is not None and (identifier.text or "").startswith("urn:uuid:")
    assert identifier.attrib["id"] == package.attrib["unique-identifier"]
    (modified,) = (
        meta for meta in package.iter(f"{OPF}meta") if meta.attrib["property"] == "dcterms:modified"
    )
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", modified.text or "")
    items = {item.attrib["id"]: item.attrib for item in package.iter(f"{OPF}item")}
    assert {f"EPUB/{item['href']}" for item in items.values()} | {
        "mimetype",
        "META-INF/container.xml",
        "EPUB/package.opf",
    } == set(archive.namelist())
    assert [item["href"] for item in items.values() if item.get("properties") == "nav"] == ["nav.xhtml"]
    assert all(ref.attrib["idref"] in items for ref in package.iter(f"{OPF}itemref"))
    assert paragraphs(archive, "EPUB/chapter-0001.xhtml") == ["One & two <three>.", "Four\nfive."]


def test_epub_chapters_follow_the_headings() -> None:
    archive = open_epub(tale("Before.\n\n# One\n\nText.\n## Two\nEnd."))
    found = ElementTree.fromstring(archive.read("EPUB/nav.xhtml"))
    assert [link.text for link in found.iter(f"{XHTML}a")] == ["Untitled", "One", "Two"]
