"""Markdown: front matter of any kind, and texts that begin like JSON."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.story import formats
from srbwriter.story.formats import FormatError
from srbwriter.story.model import StoryDraft
from tests.story.format_files import notices, path_text

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
    assert draft.modified == 1714953600
    assert path_text(draft) == "# One\n\nThree words here.\n"
    assert not notices(draft)


def test_a_screenplay_that_was_exported_comes_back() -> None:
    script = "INT. HOUSE - DAY\n\nHe sits.\n\nEXT. GARDEN - NIGHT\n\nShe runs.\n"
    assert formats.detect(script.encode()).name == "fountain"
    draft = formats.read(script.encode(), "a.fountain")
    exported = formats.write(draft, "markdown")
    assert formats.detect(exported).name == "markdown"
    assert path_text(formats.read(exported, "a.md")) == path_text(draft)


@given(title=TEXTS, byline=TEXTS, language=TEXTS)
def test_what_the_front_matter_says_comes_back(title: str, byline: str, language: str) -> None:
    draft = read("# One\n\nText.")
    draft.title, draft.byline, draft.language = title, byline, language
    again = formats.read(formats.write(draft, "markdown"), "again.md")
    assert (again.title, again.byline, again.language) == (title, byline, language)
    assert path_text(again) == path_text(draft)


def test_a_story_without_front_matter_gets_what_is_known_of_it() -> None:
    draft = read("# One\n\nText.")
    draft.byline = "yes"  # would be something else than a text, were it not in quotes
    lines = formats.write(draft, "markdown").decode().split("---\n")[1]
    assert yaml.safe_load(lines) == {"author": "yes", "words": 3}


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


@pytest.mark.parametrize(
    ("front", "problem"),
    [
        ("title: x\nShe ran.\n", "line 4"),
        ("a: &x [1]\nb: *x\n", "aliases"),
        ("a: [1\n", "line"),
        ("a: " + "[" * 400 + "]" * 400 + "\n", "nested too deeply"),
        ("a: !!python/object:os.system x\n", "could not determine a constructor"),
    ],
)
def test_what_is_no_yaml_stays_in_the_text_and_the_writer_is_told(front: str, problem: str) -> None:
    text = f"---\n{front}---\n# One\n"
    draft = read(text)
    assert path_text(draft) == text and not draft.title
    [notice] = notices(draft)
    assert "not YAML" in notice and problem in notice


@given(st.text(st.sampled_from("ab:-#'\"[]{},&*!|>%@`\n \t.1~?"), max_size=40))
def test_no_front_matter_loses_text(block: str) -> None:
    text = f"---\n{block}\n---\nText.\n"
    draft = read(text)
    front, rest = "", path_text(draft)
    if rest != text:
        front = text.removesuffix(rest)
        assert front.startswith("---\n") and front.rstrip().endswith(("---", "..."))
    assert front + rest == text


@pytest.mark.parametrize(
    "text",
    [
        "---\nA scene.\n---\n# One\n",
        "---\n\n# One\n",
        "---\n- a list\n---\n",
        "---\ntitle: x\nno end",
        "[[The Orchard]] is a place.\n\n# One\n",
        '["Go," she said](note.md) and went.\n\n# One\n',
        '["Unclosed\n\n# One\n',
        "[[1, 2], the rest of a page\n",
        "{curly} words",
        "%PDF is a format.",
    ],
)
def test_a_text_that_only_looks_a_little_like_something_else_is_a_text(text: str) -> None:
    draft = read(text)
    assert path_text(draft) == text and not notices(draft) and not draft.title


@pytest.mark.parametrize(
    "text", ['[["a", "b"], ["c"', '["a", "b"', '["a", 5]', '[{"a": }]', '[["a' + "x" * 2000]
)
def test_broken_json_is_not_taken_for_a_text(text: str) -> None:
    with pytest.raises(FormatError):
        read(text)
