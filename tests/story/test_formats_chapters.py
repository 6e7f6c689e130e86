"""Headings of chapters and scenes in exports, which add them to a text that does not hold them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from srbwriter.story import formats
from srbwriter.story.formats.prose import path_text, text_with_headings
from srbwriter.story.headings import headings
from srbwriter.story.model import DraftNode, Marks, StoryDraft, path_to

NODES = (
    (None, "It rained.\n\nShe"),
    ("Two *stars* & <more>", " left.\n\n"),
    ("", "Snow fell.\n\n"),
    ("Three #", "\n\nHe stayed."),
)
"""Titles and texts; the second chapter begins inside a paragraph, and the last with blank lines."""

PARAGRAPHS = ["It rained.", "She left.", "Snow fell.", "He stayed."]


def draft(*nodes: tuple[str | None, str]) -> StoryDraft:
    """A path of nodes, each a chapter where it has a title; an empty one is a scene."""
    made = [DraftNode("r")]
    for number, (title, text) in enumerate(nodes):
        marks = Marks() if title is None else Marks(chapter=True, title=title)
        made.append(DraftNode(f"n{number}", made[-1].id, text=text, marks=marks))
    return StoryDraft(made, made[-1].id, title="Tale")


def outline(story: StoryDraft) -> list[tuple[str, str]]:
    """Each chapter's title, as it reads, with the first line of prose below it."""
    path = path_to(story, story.current_id)
    found: list[tuple[str, str]] = []
    for index, node in enumerate(path):
        if node.marks.chapter and node.marks.title:
            text = "".join(each.text for each in path[index:])
            lines = [line.strip() for line in text.split("\n") if line.strip() and not line.startswith("#")]
            found.append((node.marks.title, lines[0] if lines else ""))
    return found


def prose(story: StoryDraft) -> list[str]:
    """The paragraphs of the text without headings and scene breaks."""
    lines = [line.strip() for line in path_text(story).split("\n")]
    return [line for line in lines if line and not line.startswith("# ") and line != "* * *"]


@pytest.mark.parametrize("form", ["markdown", "epub", "docx"])
def test_chapters_come_back_from_a_file(form: str) -> None:
    made = draft(*NODES)
    back = formats.read(formats.write(made, form), f"a.{form}")
    assert outline(back) == [("Two *stars* & <more>", "She left."), ("Three #", "He stayed.")]
    assert prose(back) == PARAGRAPHS
    assert "* * *\n\nSnow fell." in path_text(back)


@pytest.mark.parametrize("form", ["srbwriter", "loom"])
def test_trees_keep_marks_and_text_as_they_are(form: str) -> None:
    made = draft(*NODES)
    back = formats.read(formats.write(made, form), "a.json")
    assert path_text(back) == path_text(made)
    path = path_to(back, back.current_id)
    assert [(n.marks.chapter, n.marks.title) for n in path[1:]] == [
        (title is not None, title or "") for title, _ in NODES
    ]


def test_plain_text_has_headings_in_paragraphs_of_their_own() -> None:
    assert formats.write(draft(*NODES), "text").decode() == (
        "It rained.\n\nTwo *stars* & <more>\n\nShe left.\n\n* * *\n\nSnow fell.\n\n\n\nThree #\n\nHe stayed."
    )
    one_line_each = draft((None, "It rained.\n"), ("Two", "She left.\n"))
    assert formats.write(one_line_each, "text").decode() == "It rained.\n\nTwo\n\nShe left.\n"


@pytest.mark.parametrize("form", [each.name for each in formats.writable()])
def test_a_heading_that_the_text_holds_is_not_added(form: str) -> None:
    text = "# One\n\nIt rained.\n\n***\n\nShe left."
    plain, marked = draft((None, text)), draft(("One", text[: text.index("***")]), ("", "***\n\nShe left."))
    for each in (plain, marked):
        each.id, each.modified = "12345678-1234-5678-1234-567812345678", 5.0
    if form in ("markdown", "text"):
        assert formats.write(plain, form) == formats.write(marked, form)
    data = formats.write(marked, form)
    assert data.count(b"* * *") <= 1 and len(re.findall(rb"<h1>One</h1>|<h2[^>]*>One</h2>", data)) <= 1


@pytest.mark.parametrize("form", [each.name for each in formats.writable()])
def test_an_empty_chapter_and_one_at_the_beginning_can_be_exported(form: str) -> None:
    formats.write(draft(("One", ""), ("", ""), ("Two", "")), form)
    formats.write(draft(("", "It rained.\n"), ("Two", "")), form)


TITLES = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), max_size=12)
TEXTS = st.text("ab .\n", max_size=12)


@given(st.lists(st.tuples(st.none() | TITLES.filter(lambda title: "*" not in title), TEXTS), max_size=6))
@hypothesis_settings(max_examples=50, deadline=None)
def test_an_export_adds_headings_and_no_other_letter(nodes: list[tuple[str | None, str]]) -> None:
    made = draft(*nodes)
    text = path_text(made)
    marks, at = list[tuple[int, str]](), 0
    for title, words in nodes:
        if title is not None:
            marks.append((at, title))
        at += len(words)
    added = text_with_headings(made, markdown=False)
    expected, at = "", 0
    for heading in headings(text, marks):
        assert heading.start == 0 or text[heading.start - 1] == "\n"
        expected += text[at : heading.start] + heading.title
        at = heading.start
    assert added.replace("* * *\n\n", "").replace("\n", "") == (expected + text[at:]).replace("\n", "")


@given(TITLES)
@hypothesis_settings(max_examples=50, deadline=None)
def test_any_title_comes_back_from_markdown(title: str) -> None:
    title = " ".join(title.split())
    back = formats.read(
        formats.write(draft((None, "It rained.\n\n"), (title, "She left.")), "markdown"), "a.md"
    )
    assert [found for found, _ in outline(back)] == [title][: bool(title)]
