"""Markdown: front matter of any kind, and texts that begin like JSON."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st

from srbwriter import formats
from srbwriter.formats.markdown import write_markdown
from srbwriter.story import Story
from srbwriter.story.draft import StoryDraft
from tests.formats.files import notices, path_text

FULL = """---
# what it is called
title: "A: tale"   # in quotes
subtitle: 'it''s'
author:
  - Ada Lovelace
  - {name: Bob, affiliation: none}
tags: [a, "b c", 3]
summary: |
  First line.

  # no comment
# before the next
folded: >-
  one
  two
draft: true
version: 3.10
time: 12:30
country: no
n: 12
empty:
language: de
date: 2024-05-06
words: 7
# last
---
# One

Three words here.
"""


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


def read(text: str) -> StoryDraft:
    return formats.read(text.encode(), "tale.md")


def test_front_matter_is_yaml_and_says_what_the_story_is() -> None:
    draft = read(FULL)
    assert (draft.title, draft.byline, draft.language) == ("A: tale", "Ada Lovelace, Bob", "de")
    assert path_text(draft) == "# One\n\nThree words here.\n"
    assert not notices(draft)


@pytest.mark.parametrize(
    ("front", "byline"),
    [
        ("author: Ada", "Ada"),
        ("authors: [Ada, Bob]", "Ada, Bob"),
        ("author: {name: Ada}", "Ada"),
        ("author:\n- name: Ada\n- name: Bob", "Ada, Bob"),
        ("author: 1984", "1984"),
        ("byline: 'by: me'", "by: me"),
        ("author: null", ""),
    ],
)
def test_an_author_is_found_however_it_is_written(front: str, byline: str) -> None:
    assert read(f"---\n{front}\n---\nText.").byline == byline


@pytest.mark.parametrize("front", ["title: x\nShe ran.\n", "a: [1\n", "a: " + "[" * 600 + "]" * 600 + "\n"])
def test_what_is_no_yaml_stays_in_the_text_and_the_writer_is_told(front: str) -> None:
    text = f"---\n{front}---\n# One\n"
    draft = read(text)
    assert path_text(draft) == text and not draft.title
    [notice] = notices(draft)
    assert "not YAML" in notice


def test_the_front_matter_counts_as_the_app_does(tmp_path: Path) -> None:
    with Story.create(tmp_path / "tale.srbw") as story:
        story.append("# One\n\nShe didn’t go — not yet.\n\n他走了。\n")
        words = story.words(story.current)
        assert f"\nwords: {words}\n" in write_markdown(story.draft()).decode()
