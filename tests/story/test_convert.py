"""A story survives being a draft, and a draft being a story."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srbwriter import formats
from srbwriter.story import ROOT, Properties, Refused, Settings, Story
from srbwriter.story.languages import language_tag
from srbwriter.story.model import (
    DraftError,
    DraftNode,
    Generation,
    LoreEntry,
    Marks,
    Progress,
    Span,
    StoryDraft,
)
from tests.story.branches import generated

TEXT = st.text("ab \n", max_size=8)


@st.composite
def draft_nodes(draw: st.DrawFn, number: int, names: list[str]) -> DraftNode:
    author = draw(st.sampled_from(["writer", "model", "edited", "imported"]))
    text = draw(TEXT) if number else ""
    spans = []
    if text and draw(st.booleans()):
        tokens = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
        spans = [Span(text, author, tuple(tokens), "v", (-1.5,) * len(tokens))]
    return DraftNode(
        id=names[number],
        parent_id=None if not number else names[draw(st.integers(0, number - 1))],
        order=number,
        text=text,
        author=author,
        spans=spans,
        generation=draw(st.none() | st.just(Generation(3, {"top_k": 5}, "m", "eog"))),
        marks=Marks(
            bookmark=draw(st.booleans()),
            tags=tuple(draw(st.lists(st.sampled_from(["x", "y z"]), unique=True))),
            note=draw(TEXT),
            visited=draw(st.booleans()),
            deleted=bool(number) and draw(st.booleans()),
        ),
        settings=Settings(memory=draw(st.none() | TEXT), lore=draw(st.just([]) | st.just([LoreEntry("1")]))),
        created=draw(st.none() | st.just(12.5)),
        meta=draw(st.just({}) | st.just({"foreign": {"loom": {"a": [1, None]}}})),
    )


@st.composite
def drafts(draw: st.DrawFn) -> StoryDraft:
    count = draw(st.integers(1, 7))
    names = draw(st.sampled_from([list("1234567"), list("1987654")]))
    nodes = [draw(draft_nodes(number, names)) for number in range(count)]
    story = StoryDraft(nodes, nodes[0].id, "Title", "By", "fr", 1.0, 2.0, {"kept": True}, UUID)
    story.values = draw(st.just({}) | st.just({"knobs": {"sampling": {"top_k": 5}}, "x-y": [1, None]}))
    story.days = {"2024-05-06": Progress(*draw(st.tuples(*[st.integers(-5, 500)] * 3)), 1.5)}
    return story


UUID = "12345678-1234-5678-1234-567812345678"


def by_id(draft: StoryDraft) -> dict[str, DraftNode]:
    return {node.id: node for node in draft.nodes}


@settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
@given(drafts())
def test_a_draft_comes_back_as_it_was(draft: StoryDraft) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.srbw"
        with Story.from_draft(path, draft) as story:
            again = story.to_draft()
        with Story.open(path) as story:
            assert story.to_draft() == again
    assert by_id(again) == by_id(draft)
    assert replace(again, nodes=[]) == replace(draft, nodes=[])


def test_any_names_and_a_root_with_text_become_a_story(tmp_path: Path) -> None:
    nodes = [DraftNode("r", text="Once. "), DraftNode("x", "r", text="It fell.")]
    with Story.from_draft(tmp_path / "t.srbw", StoryDraft(nodes, "x")) as story:
        assert story.text(story.current) == story.to_draft().text == "Once. It fell."
        assert story.node(ROOT).text == ""


def test_a_draft_that_is_no_tree_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "t.srbw"
    with pytest.raises(DraftError):
        Story.from_draft(path, StoryDraft([DraftNode("1"), DraftNode("2", "3")], "1"))
    assert not path.exists()


@settings(deadline=None, max_examples=7, suppress_health_check=list(HealthCheck))
@given(drafts())
def test_nodes_keep_their_numbers_when_a_story_goes_out_and_comes_in(draft: StoryDraft) -> None:
    """Values of faces, such as drafts, go by numbers."""
    with tempfile.TemporaryDirectory() as name, Story.from_draft(Path(name) / "a.srbw", draft) as first:
        first.append("One more.")
        out = formats.read(formats.write(first.to_draft(), "srbwriter"), "a.json")
        with Story.from_draft(Path(name) / "b.srbw", out) as second:
            for node in first.reading_order():
                assert second.text(node) == first.text(node)
            assert second.to_draft() == first.to_draft()


def test_the_whole_of_a_story_is_in_its_own_json(story: Story, tmp_path: Path) -> None:
    story.append("It was late. ")
    one, two = generated(story, story.current, "She went.", "She stayed.")
    story.pick(one)
    story.append(" And then?")
    story.delete(two)
    story.put_value("knobs", {"sampling": {"temperature": 0.5}, "stop": {}, "ladder": None})
    story.put_value("drafts", {f"below:{one}:1": "unsaved words"})
    story.set_properties(Properties("The Orchard", "Ada", "pt-BR"))
    data = formats.write(story.to_draft(), "srbwriter")
    with Story.from_draft(tmp_path / "b.srbw", formats.read(data, "b.json")) as again:
        assert again.days() == story.days() and sum(day.words for day in again.days().values()) > 0
        for key in ("knobs", "drafts"):
            assert again.value(key) == story.value(key)
        assert (again.properties, again.id) == (story.properties, story.id)
        assert again.backup_folder(tmp_path) != story.backup_folder(tmp_path), (
            "a story of its own all the same"
        )
        assert again.undo() is None
    assert json.loads(data)["without"] == ["the undo history"]


def test_json_of_the_first_version_is_read(tmp_path: Path) -> None:
    nodes = [{"id": "1"}, {"id": "2", "parent_id": "1", "text": "Text."}]
    story = {"current_id": "1", "language": "de", "byline": "Ada", "nodes": nodes}
    story |= {"hoisted": "2", "sittings": [{"began": 1.0, "ended": 2.0}]}  # of version 2 before 0.6
    old = {"format": "srbwriter", "version": 1, "story": story}
    with Story.from_draft(tmp_path / "b.srbw", formats.read(json.dumps(old).encode(), "o.json")) as story:
        assert (story.properties.author, story.properties.language) == ("Ada", "de")
        assert story.days() == {}


def test_json_keeps_its_names() -> None:
    run = {"text": "x", "author": "model", "tokens": [1], "vocabulary": "v", "logprobs": [-1.5], "lead": "w"}
    marks = {"tags": ["t"], "visited": False, "deleted": True}
    nodes = [{"id": "1"}, {"id": "2", "parent_id": "1", "text": "x", "runs": [run], "marks": marks}]
    day = {"typed": 1, "seconds": 2.5}
    story = {"nodes": nodes, "current_id": "1", "days": {"2024-05-06": day}}
    file = {"format": "srbwriter", "version": 2, "without": ["the undo history"], "story": story}
    draft = formats.read(json.dumps(file).encode(), "o.json")
    assert draft.nodes[1].spans == [Span("x", "model", (1,), "v", (-1.5,), "w")]
    assert json.loads(formats.write(draft, "srbwriter")) == file


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"days": {"yesterday": {}}}, "story.days.yesterday"),
        ({"days": {"2024-05-06": {"typed": 10**30}}}, "story.days.2024-05-06"),
        ({"days": {"2024-05-06": {"seconds": 1e300}}}, "story.days.2024-05-06"),
        ({"values": []}, "story.values"),
    ],
)
def test_sections_that_cannot_be_kept_are_refused_by_their_place(
    fields: dict[str, object], place: str
) -> None:
    story = {"current_id": "1", "nodes": [{"id": "1"}], **fields}
    data = json.dumps({"format": "srbwriter", "version": 2, "story": story}).encode()
    with pytest.raises(formats.FormatError) as caught:
        formats.read(data, "bad.json")
    assert caught.value.place.startswith(place)


# ---- title, author, language


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (Properties("", "Ada", "de"), "needs a title"),
        (Properties(" \t\n", "Ada", "de"), "needs a title"),
        (Properties("T", "Ada", "deutsch und so"), "no language tag; one is written en, de or pt-BR"),
    ],
)
def test_properties_that_cannot_be_are_refused(story: Story, properties: Properties, words: str) -> None:
    before = story.properties
    with pytest.raises(Refused, match=words):
        story.set_properties(properties)
    assert story.properties == before and story.undo() is None


@pytest.mark.parametrize(
    ("surroundings", "language"),
    [
        ({"LANG": "pt_BR.UTF-8"}, "pt-BR"),
        ({"LANG": "de_DE", "LC_ALL": "sr_RS@latin"}, "sr-RS"),
        ({"LC_ALL": "C.UTF-8"}, "en"),
        ({"LANG": "POSIX"}, "en"),
        ({"LANG": "nonsense!"}, "en"),
        ({}, "en"),
    ],
)
def test_the_language_is_that_of_the_surroundings_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, surroundings: dict[str, str], language: str
) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in surroundings.items():
        monkeypatch.setenv(name, value)
    with Story.create(tmp_path / "t.srbw", "T") as story:
        assert story.properties.language == language
        monkeypatch.setenv("LC_ALL", "fi_FI")
        assert story.properties.language == story.to_draft().language == language
    with Story.from_draft(tmp_path / "u.srbw", StoryDraft([DraftNode("1")], "1")) as story:
        assert story.properties.language == "fi-FI"


@pytest.mark.parametrize(
    ("words", "tag"),
    [
        ("EN", "en"), ("en_us", "en-US"), ("zh-hant-tw", "zh-Hant-TW"), ("de-CH-1996", "de-CH-1996"),
        ("x", None), ("", None), ("e n", None), ("en-", None), ("deutsch-", None),
        ("Deutsch", None), ("klingon", None),
        ("en-x-apple", "en-x-apple"),
        ("yue", "yue"), ("en-419", "en-419"), ("en-a-bbb", "en-a-bbb"), ("12", None),
    ],
)  # fmt: skip
def test_tags_of_languages(words: str, tag: str | None) -> None:
    assert language_tag(words) == tag
