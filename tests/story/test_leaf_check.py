"""Nothing that a foreign file says is lost on the way in: the leaf check over every importer."""

from __future__ import annotations

import json

import pytest

from srbwriter.story import formats
from srbwriter.story.formats import FORMATS
from tests.story.format_files import FIXTURES
from tests.story.leaf_check import EXCUSED, lost_leaves, open_file, unused_excuses
from tests.story.test_formats import EXPECTED


@pytest.mark.parametrize(("file", "form"), EXPECTED.items())
def test_every_leaf_of_a_file_is_in_the_story(file: str, form: str) -> None:
    assert lost_leaves(form, (FIXTURES / file).read_bytes()) == []


def test_every_importer_has_an_example() -> None:
    assert {form.name for form in FORMATS if form.can_import} - {"srbwriter"} <= set(EXPECTED.values())


def test_every_excuse_excuses_something() -> None:
    for form in EXCUSED:
        files = [(FIXTURES / file).read_bytes() for file, name in EXPECTED.items() if name == form]
        assert unused_excuses(form, files) == set()


@pytest.mark.parametrize(("file", "form"), EXPECTED.items())
def test_a_file_that_is_opened_and_closed_says_the_same(file: str, form: str) -> None:
    """Else what the check finds would be its own doing."""
    data = (FIXTURES / file).read_bytes()
    opened = open_file(form, data)
    assert formats.read(opened.close(opened.value), "a") == formats.read(data, "a")


def test_the_check_sees_what_an_importer_drops() -> None:
    """The parent of a nested node, which is excused for no other reason than that the nesting says it."""
    data = json.dumps({"text": "a", "children": [{"text": "b", "parentId": "?", "children": []}]}).encode()
    assert lost_leaves("loom", data, excused={}) == ["children.0.parentId"]
    assert lost_leaves("loom", data) == []
