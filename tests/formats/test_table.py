"""The table of formats, detection, and what every importer owes to a broken file."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter import formats
from srbwriter.formats import FORMATS, FormatError
from srbwriter.story.draft import StoryDraft
from srbwriter.story.model import ROOT
from tests.formats.files import FIXTURES, format_of, path_text, read_json, shape, tale

EXPECTED = {
    "loom.json": "loom",
    "loom_old.json": "loom",
    "loom_simple.json": "loom",
    "loom_chapters.json": "loom",
    "mikupad.json": "mikupad",
    "conversations.json": "conversations",
    "kobold_lite.json": "kobold",
    "kobold_instruct.json": "kobold",
    "sillytavern.jsonl": "sillytavern",
    "sillytavern_group.jsonl": "sillytavern",
    "worldinfo.json": "worldinfo",
    "lorebook_v3.json": "worldinfo",
    "card.json": "card",
    "card_v1.json": "card",
    "card_v3.json": "card",
    "novelai.story": "novelai",
    "novelai.scenario": "novelai-scenario",
    "novelai.lorebook": "novelai-lorebook",
    "page.html": "html",
    "manuscript.docx": "docx",
    "manuscript.odt": "odt",
    "manuscript.rtf": "rtf",
    "book.epub": "epub",
    "story.md": "markdown",
    "story.txt": "text",
}


def check(draft: StoryDraft) -> None:
    """The nodes form a tree, parents first, whose root is empty."""
    for before, (number, node) in enumerate(draft.nodes.items()):
        parents = [*draft.nodes][:before]
        assert node.id == number and (node.parent in parents or (number, node.text) == (ROOT, ""))
    assert draft.current in draft.nodes


@pytest.mark.parametrize(("file", "name"), EXPECTED.items())
def test_a_format_is_found_by_content_under_any_name(file: str, name: str) -> None:
    data = (FIXTURES / file).read_bytes()
    assert format_of(data) == name
    check(formats.read(data, "misleading.png"))


def test_unknown_names_and_import_only_formats_are_refused_by_name() -> None:
    draft = StoryDraft()
    with pytest.raises(KeyError, match="no format 'pages'"):
        formats.write(draft, "pages")
    with pytest.raises(KeyError, match="can only be imported"):
        formats.write(draft, "rtf")


@pytest.mark.parametrize(
    ("data", "place", "expected"),
    [
        (b'{"a": 1,\n "b": }', "line 2, column 7", "JSON"),
        (b"\xff\xfa\x00text\x80", "byte", "UTF-8"),
        (b"text \x80", "byte 5", "UTF-8"),
        (b"text\0\x01\x02\x03", "byte 4", "has zeros"),
        (b"It was late.\n\0\0\0\0", "byte 13", "has zeros in it"),
        (b"SQLite format 3\0rest", "byte 0", "database"),
        (b'{"weather": "fine"}', "the top level", "JSON with weather at the top level, and of"),
        (b'{"n": ' + b"9" * 5000 + b"}", "the file", "sane size"),
    ],
)
def test_files_of_no_format_say_where_and_what(data: bytes, place: str, expected: str) -> None:
    with pytest.raises(FormatError) as caught:
        formats.read(data, "bad")
    assert caught.value.file == "bad"
    assert caught.value.place.startswith(place)
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_half_an_emoji_becomes_a_replacement_character() -> None:
    data = rb'{"text": "a \ud83d b", "children": [{"text": "\ud83d\ude00", "x\udc00": ["\ud800"]}]}'
    draft = formats.read(data, "a")
    assert shape(draft) == ("", [("a � b", [("😀", [])])])
    formats.write(draft, "srbwriter")


def test_a_tree_deeper_than_the_stack_is_read_and_written() -> None:
    depth = 2_000
    draft = tale(*"a" * depth)
    for name in ("epub", "text", "srbwriter"):
        written = formats.write(draft, name)
        assert path_text(formats.read(written, name)) == "a" * depth
    with pytest.raises(FormatError, match="JSON of a sane size"):
        formats.read(b'{"text": "", "children": [' * 100_000, "deep.json")


EXPORTED = [form.name for form in FORMATS if form.write]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_example_is_read_or_refused_but_nothing_else(data: st.DataObject) -> None:
    """Any one value of any example replaced by anything: a draft that holds together, or a FormatError."""
    endings = ("json", "story", "scenario", "book")
    file = data.draw(st.sampled_from(sorted(name for name in EXPECTED if name.endswith(endings))))
    value = json.loads((FIXTURES / file).read_text("utf-8"))
    here = value
    while True:
        key = data.draw(st.sampled_from(sorted(here) if isinstance(here, dict) else range(len(here))))
        if not isinstance(here[key], dict | list) or not here[key] or data.draw(st.booleans()):
            here[key] = data.draw(JSON)
            break
        here = here[key]
    try:
        draft = read_json(value)
    except FormatError as error:
        assert error.place and error.expected
        return
    check(draft)
    formats.write(draft, data.draw(st.sampled_from(EXPORTED)))


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_cut_or_scrambled_file_is_read_or_refused_but_nothing_else(data: st.DataObject) -> None:
    whole = (FIXTURES / data.draw(st.sampled_from(sorted(EXPECTED)))).read_bytes()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 40)))
    damaged = whole[:start] + data.draw(st.binary(max_size=4)) + whole[end:]
    try:
        check(formats.read(damaged, "x"))
    except FormatError as error:
        assert error.place and error.expected
