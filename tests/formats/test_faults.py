"""Faults that writers met, each with the file that showed it."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from srbwriter import formats
from srbwriter.formats import folder as folders
from srbwriter.story.draft import StoryDraft
from tests.formats.documents import PACKAGE, book, odt, page
from tests.formats.files import notices, path_text, read_json, shape, tale


def read_html(text: str) -> str:
    return path_text(formats.read(text.encode(), "a.html"))


def read_word(word: docx.document.Document) -> StoryDraft:
    buffer = io.BytesIO()
    word.save(buffer)
    return formats.read(buffer.getvalue(), "a.docx")


# -- style sheets and tables of contents -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("sheet", "body", "text"),
    [
        (".it{font-style:italic}", '<p>He was <span class="it">very</span> late.</p>', "He was *very* late."),
        ("p.x, em.y { font-weight: bold }", '<p class="x z">All of it</p>', "**All of it**"),
        ("/* .it{} */ .a .it { font-style: oblique }", '<p>a <span class="it">b</span></p>', "a *b*"),
        ("em { font-style: normal }", "<p><em>a</em></p>", "a"),
        (".n { color: red }", '<p><i class="n">a</i></p>', "*a*"),
    ],
)
def test_italics_and_bold_of_a_style_sheet(sheet: str, body: str, text: str) -> None:
    assert read_html(f"<html><head><style>{sheet}</style></head><body>{body}</body></html>") == text


def test_a_book_has_its_italics_from_its_sheet_and_its_chapters_from_its_contents() -> None:
    """As LibreOffice writes it: no headings, no ``em``."""
    package = PACKAGE.replace("text/ncx", "")
    pages = {
        "OEBPS/Text/title.xhtml": page("T", '<p class="t">The Orchard</p>'),
        "OEBPS/Text/chapter1.xhtml": page("", '<p>Chapter one</p><p>It was <span class="i">late</span>.</p>'),
        "OEBPS/Text/chapter 2.xhtml": page("", '<p>Home.</p><p id="b">Snow.</p>'),
        "OEBPS/style.css": ".i { font-style: italic }",
        "OEBPS/toc.ncx": (
            "<ncx><navMap><navPoint><navLabel><text>Chapter one</text></navLabel>"
            '<content src="Text/chapter1.xhtml"/></navPoint><navPoint><navLabel><text>Two</text></navLabel>'
            '<content src="Text/chapter%202.xhtml#b"/></navPoint></navMap></ncx>'
        ),
    }
    draft = formats.read(book(package, **pages), "a.epub")
    assert path_text(draft) == ("The Orchard\n\n# Chapter one\n\nIt was *late*.\n\nHome.\n\n# Two\n\nSnow.")


def test_a_title_page_is_no_chapter_and_a_notes_number_stands_apart() -> None:
    pages = {
        "OEBPS/Text/title.xhtml": page("T", "<h1>The Orchard</h1><p>A tale of rain.</p>"),
        "OEBPS/Text/chapter1.xhtml": page(
            "", '<h1>One</h1><p>It was late<sup><a href="#n1">1</a></sup>. So late'
            '<a epub:type="noteref" href="#n2">2</a>.</p>'
            '<aside epub:type="footnote" id="n2"><p>2. Very.</p></aside>',
        ),
    }  # fmt: skip
    draft = formats.read(book(**pages), "a.epub")
    assert path_text(draft) == (
        "A tale of rain.\n\n# One\n\nIt was late[1]. So late[^1].\n\n[^1]: Very.\n\n## Two\n\n"
        "Home.\nNobody\u00a0came."
    )


# -- Word, RTF, OpenDocument -----------------------------------------------------------------------------


def test_a_drop_cap_is_the_first_letter_of_its_paragraph() -> None:
    word = docx.Document()
    word.add_paragraph("I")._p.get_or_add_pPr().append(
        parse_xml(f'<w:framePr {nsdecls("w")} w:dropCap="drop" w:lines="3"/>')
    )
    word.add_paragraph("t was late.")
    assert path_text(read_word(word)) == "It was late."


NOTED = (
    "# One\n\nPear[^1] and plum[^b].\n\n- first\n- second\n\n[^1]: An *apple*.\n\n[^b]: No plum.\n\n"
    "# Two\n\n[^x] ends."
)


@pytest.mark.parametrize("form", ["docx", "epub"])
def test_footnotes_are_real_ones_and_lists_have_no_empty_lines(form: str) -> None:
    data = formats.write(tale(NOTED), form)
    archive = zipfile.ZipFile(io.BytesIO(data))
    whole = b"".join(archive.read(name) for name in archive.namelist()).decode("utf-8", "replace")
    assert "[^1]" not in whole and "[^b]" not in whole and "[^x]" in whole
    assert whole.count("footnoteReference w" if form == "docx" else "noteref") == 2
    assert path_text(formats.read(data, "a")) == NOTED.replace("[^b]", "[^2]")


def test_a_list_of_word_has_no_empty_lines() -> None:
    word = docx.Document()
    for text, style in (("Buy:", None), ("pears", "List Bullet"), ("plums", "List Bullet"), ("Go.", None)):
        word.add_paragraph(text, style)
    assert path_text(read_word(word)) == "Buy:\n\n- pears\n- plums\n\nGo."


@pytest.mark.parametrize(
    ("rtf", "text"),
    [
        (r"\pard{\loch\f0\i0\b0\*\cs7\cf0 The words that vanish}\par", "The words that vanish"),
        (r"\pard{\*\unknown gone}kept\par", "kept"),
        (
            r"\trowd\pard\intbl a\cell\pard\intbl\itap2 x\nestcell y\nestcell{\*\nesttableprops\nestrow}"
            r"{\nonesttables\par}\pard\intbl b\cell\row\pard end\par",
            "a\n\nx\n\ny\n\nb\n\nend",
        ),
    ],
)
def test_rich_text(rtf: str, text: str) -> None:
    assert path_text(formats.read(rf"{{\rtf1\ansi {rtf}}}".encode(), "a.rtf")) == text


def test_a_line_of_libreoffice_is_a_scene_break() -> None:
    body = '<text:p>a</text:p><text:p text:style-name="Horizontal_20_Line"/><text:p>b</text:p>'
    assert path_text(formats.read(odt(body), "a.odt")) == "a\n\n* * *\n\nb"


def test_headings_of_the_second_level_stay_in_their_chapter() -> None:
    text = "# One\n\nIt rained.\n\n## Night\n\nLate.\n\n# Two\n\nEnd."
    archive = zipfile.ZipFile(io.BytesIO(formats.write(tale(text, title="T"), "epub")))
    assert [name for name in archive.namelist() if "chapter" in name] == [
        "EPUB/chapter-0001.xhtml", "EPUB/chapter-0002.xhtml"
    ]  # fmt: skip
    links = re.findall(r'<a href="([^"]+)">([^<]+)', archive.read("EPUB/nav.xhtml").decode())
    assert links == [
        ("chapter-0001.xhtml", "One"), ("chapter-0001.xhtml#s2", "Night"), ("chapter-0002.xhtml", "Two")
    ]  # fmt: skip
    assert path_text(formats.read(formats.write(tale(text), "epub"), "a")) == text


# -- folders of other programs ---------------------------------------------------------------------------

INDEX = """---
longform:
  format: scenes
  title: My Great Novel
  sceneFolder: /scenes
  scenes:
    - Storm
    - - Ashore
    - Arrival
  ignoredFiles:
    - Research
---
"""


def test_longform_has_the_order_of_its_index_note_and_nothing_else(tmp_path: Path) -> None:
    scenes = {
        "Storm": "---\n\nFirst part kept.\n\n---\n\nLast part.\n",
        "Ashore": "---\nstatus: draft\n---\nAshore one.\n\n---\n\nAshore two.\n",
        "Arrival": "Arrival: a/b text.\n",
        "Research": "research notes zebra\n",
    }
    (tmp_path / "scenes").mkdir()
    for name, text in scenes.items():
        (tmp_path / "scenes" / f"{name}.md").write_text(text)
    (tmp_path / "Index.md").write_text(INDEX)
    (tmp_path / "manuscript.md").write_text("compiled from the scenes")
    draft = formats.read_folder(folders.open_files([tmp_path]))
    assert path_text(draft) == (
        "# Storm\n\n---\n\nFirst part kept.\n\n---\n\nLast part.\n\n## Ashore\n\nAshore one.\n\n---\n\n"
        "Ashore two.\n\n# Arrival\n\nArrival: a/b text.\n"
    )
    assert draft.title == "My Great Novel"
    assert "left out, since they are no scenes of Index.md: manuscript.md, scenes/Research.md" in notices(
        draft
    )


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["nwProject.nwx", "content/0a1.nwd"], "is a project of novelWriter — build the manuscript"),
        (["MANUSKRIPT", "outline/0-One.md"], "is a project of Manuskript — compile it there"),
    ],
)
def test_projects_of_other_programs_are_refused_in_words(
    tmp_path: Path, files: list[str], words: str
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    with pytest.raises(formats.FormatError, match=words):
        formats.read_folder(folders.open_files([tmp_path]), as_one=True)


# -- conversations ---------------------------------------------------------------------------------------


def said(key: str, parent: str | None, role: str, text: str, *children: str) -> dict[str, object]:
    message = {"author": {"role": role}, "content": {"content_type": "text", "parts": [text]}}
    return {"id": key, "message": message if role else None, "parent": parent, "children": list(children)}


def test_conversations_of_chatgpt_come_with_their_branches() -> None:
    entries = [
        said("r", None, "", "", "s"), said("s", "r", "system", "Be kind.", "u"),
        said("u", "s", "user", "A ferry?", "a", "b"),
        said("a", "u", "assistant", "It was late."), said("b", "u", "assistant", "It came.", "t"),
        said("t", "b", "tool", "x", "v"), said("v", "t", "user", "More."),
    ]  # fmt: skip
    mapping = {str(entry["id"]): entry for entry in entries}
    chat = {"title": "Ferry", "update_time": 5, "mapping": mapping, "current_node": "v"}
    draft = read_json([chat], "conversations.json")
    assert shape(draft) == (
        "", [("A ferry?", [("\n\nIt was late.", []), ("\n\nIt came.", [("\n\nMore.", [])])])]
    )  # fmt: skip
    assert (draft.title, path_text(draft)) == ("Ferry", "A ferry?\n\nIt came.\n\nMore.")
    assert [node.author for node in draft.nodes.values()][1:] == ["writer", "model", "model", "writer"]
    other = {**chat, "title": "Older", "update_time": 1}
    both = read_json([other, chat], "conversations.json")
    assert [node.title for node in both.nodes.values() if node.title] == ["Older", "Ferry"]
    assert path_text(both) == path_text(draft)


def test_conversations_of_claude_too() -> None:
    def message(key: str, parent: str, sender: str, text: str) -> dict[str, object]:
        content = [{"type": "text", "text": text}, {"type": "tool_use"}]
        return {
            "uuid": key,
            "parent_message_uuid": parent,
            "sender": sender,
            "content": content,
            "text": text,
        }

    messages = [
        message("1", "0", "human", "A ferry?"), message("2", "1", "assistant", "It was late."),
        message("3", "1", "assistant", "It came."),
    ]  # fmt: skip
    draft = read_json([{"uuid": "c", "name": "Ferry", "chat_messages": messages}], "conversations.json")
    assert shape(draft) == ("", [("A ferry?", [("\n\nIt was late.", []), ("\n\nIt came.", [])])])
    assert (draft.title, path_text(draft)) == ("Ferry", "A ferry?\n\nIt came.")


def test_short_names_of_formats_are_known() -> None:
    assert formats.by_name("md").name == "markdown"
    assert formats.write(tale("Text."), "txt") == b"Text."
