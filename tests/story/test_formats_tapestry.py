"""Notes of Tapestry Loom's Obsidian plugin, and what they cannot be read from."""

from __future__ import annotations

import copy

import pytest

from srbwriter.story import formats
from srbwriter.story.formats import FormatError
from tests.story.format_files import FIXTURES, by_id, path_text, shape
from tests.story.tapestry_file import PLUGIN, note


def test_the_examples_are_what_the_plugin_makes() -> None:
    assert (FIXTURES / "tapestry_note.md").read_bytes() == note(PLUGIN)
    assert (FIXTURES / "tapestry_compressed.md").read_bytes() == note(PLUGIN, compressed=True)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_note_of_the_plugin_has_its_tree_in_the_front_matter(compressed: bool) -> None:
    data = note(PLUGIN, compressed=compressed)
    assert formats.detect(data).name == "tapestry"
    draft = formats.read(data, "note.md")
    assert shape(draft) == ("Once (upon", [(" a </b>", []), (' a "time"', [])])
    assert path_text(draft) == 'Once (upon a "time"'
    written = by_id(draft, "B")
    assert written.generation and written.generation.model == "base-8b"
    assert by_id(draft, "C").marks.bookmark


def test_a_note_that_was_written_on_elsewhere_goes_on_where_it_leaves_the_tree() -> None:
    draft = formats.read(note(PLUGIN, "Once (upon the sea"), "note.md")
    assert path_text(draft) == "Once (upon the sea"
    assert shape(draft) == ("Once (upon", [(" a </b>", []), (' a "time"', []), (" the sea", [])])


def test_what_is_broken_in_a_note_is_told_and_the_rest_is_read() -> None:
    document = copy.deepcopy(PLUGIN)
    document["nodes"]["B"]["parentNode"] = "gone"
    document["nodes"]["C"]["content"] = None
    draft = formats.read(note(document), "note.md")
    places = [words.partition(":")[0] for words in draft.meta["notices"]]
    assert places == ["nodes.C.content", "nodes.B"]
    with pytest.raises(FormatError, match="TapestryLoomWeave.*JSON"):
        formats.read(b'---\nTapestryLoomWeave: "{nodes"\n---\n', "note.md")
    with pytest.raises(FormatError, match="compressed weave in base64"):
        formats.read(b"---\nTapestryLoomWeaveCompressed: eJw=\n---\n", "note.md")
