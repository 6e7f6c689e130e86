"""A story survives being a draft, and a draft being a story."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from srbwriter import formats
from srbwriter.story import ROOT, Refused, Story
from srbwriter.story.draft import StoryDraft, language_tag
from srbwriter.story.model import LoreEntry, Span, StorySettings
from tests.story.branches import generated


def test_a_story_goes_out_and_comes_in_as_it_was(story: Story, tmp_path: Path) -> None:
    story.append("It was late. ")
    one, two = generated(story, story.current, "She went.", "She stayed.")
    story.pick(one)
    story.append(" And then?")
    story.delete(two)
    story.mark(one, bookmark=True)
    story.put_settings(ROOT, StorySettings(memory="A sea.", lore=[LoreEntry("1", keys=["k"])]))
    story.put_meta(one, "steered", ["a", None])
    story.put_value("knobs", {"sampling": {"temperature": 0.5}, "stop": {}, "ladder": None})
    story.put_value("drafts", {f"below:{one}:1": "unsaved words"})
    story.set_properties(title="The Orchard", author="Ada", language="pt-BR")
    data = formats.write(story.draft(), "srbwriter")
    with Story.from_draft(tmp_path / "b.srbw", formats.read(data, "b.json")) as again:
        assert again.draft() == story.draft()
        assert sum(day.words for day in again.days().values()) > 0
        assert again.backup_folder(tmp_path) != story.backup_folder(tmp_path), (
            "a story of its own all the same"
        )
        assert again.undo() is None
    assert json.loads(data)["without"] == ["the undo history"]


def test_a_root_with_text_hangs_below_an_empty_one(tmp_path: Path) -> None:
    nodes = [{"id": "r", "text": "Once. "}, {"id": "x", "parent_id": "r", "text": "It fell."}]
    file = {"format": "srbwriter", "version": 2, "story": {"nodes": nodes, "current_id": "x"}}
    draft = formats.read(json.dumps(file).encode(), "a.json")
    with Story.from_draft(tmp_path / "t.srbw", draft) as story:
        assert story.text(story.current) == "Once. It fell." and story.node(ROOT).text == ""


def test_json_of_the_first_version_is_read(tmp_path: Path) -> None:
    nodes = [{"id": "1"}, {"id": "2", "parent_id": "1", "text": "Text."}]
    story = {"current_id": "1", "language": "de", "byline": "Ada", "nodes": nodes}
    story |= {"hoisted": "2", "sittings": [{"began": 1.0, "ended": 2.0}]}  # of version 2 before 0.6
    old = {"format": "srbwriter", "version": 1, "story": story}
    with Story.from_draft(tmp_path / "b.srbw", formats.read(json.dumps(old).encode(), "o.json")) as story:
        assert story.properties.items() >= {"title": "", "author": "Ada", "language": "de"}.items()
        assert story.days() == {}


def test_json_keeps_its_names() -> None:
    run = {"text": "x", "author": "model", "tokens": [1], "vocabulary": "v", "logprobs": [-1.5], "lead": "w"}
    marks = {"tags": ["t"], "visited": False, "deleted": True}
    nodes = [
        {"id": "1", "author": "writer"},
        {"id": "2", "parent_id": "1", "text": "x", "author": "model", "runs": [run], "marks": marks},
    ]
    day = {"typed": 1, "seconds": 2.5}
    story = {"nodes": nodes, "current_id": "1", "days": {"2024-05-06": day}}
    file = {"format": "srbwriter", "version": 2, "without": ["the undo history"], "story": story}
    draft = formats.read(json.dumps(file).encode(), "o.json")
    assert draft.nodes[2].spans == (Span("x", "model", (1,), "v", (-1.5,), "w"),)
    assert json.loads(formats.write(draft, "srbwriter")) == file


@pytest.mark.parametrize(("section", "value"), [("days", {"yesterday": {}}), ("values", [])])
def test_sections_that_cannot_be_kept_are_refused(section: str, value: object) -> None:
    story = {"current_id": "1", "nodes": [{"id": "1"}], section: value}
    data = json.dumps({"format": "srbwriter", "version": 2, "story": story}).encode()
    with pytest.raises(formats.FormatError, match=r"bad.json is damaged .*(yesterday|values)"):
        formats.read(data, "bad.json")


# ---- title, author, language


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"title": "", "author": "Ada"}, "needs a title"),
        ({"title": " \t\n"}, "needs a title"),
        ({"title": "T", "language": "deutsch und so"}, "no language tag; one is written en, de or pt-BR"),
    ],
)
def test_properties_that_cannot_be_are_refused(story: Story, properties: dict[str, str], words: str) -> None:
    before = story.properties
    with pytest.raises(Refused, match=words):
        story.set_properties(**properties)
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
        assert story.properties["language"] == language
        monkeypatch.setenv("LC_ALL", "fi_FI")
        assert story.properties["language"] == story.draft().language == language
    with Story.from_draft(tmp_path / "u.srbw", StoryDraft()) as story:
        assert story.properties["language"] == "fi-FI"


@pytest.mark.parametrize(
    ("words", "tag"),
    [
        ("EN", "EN"), ("en_US", "en-US"), ("zh-Hant-TW", "zh-Hant-TW"), ("de-CH-1996", "de-CH-1996"),
        ("x", None), ("", None), ("e n", None), ("en-", None), ("deutsch-", None),
        ("Deutsch", None), ("klingon", None),
        ("en-x-apple", "en-x-apple"),
        ("yue", "yue"), ("en-419", "en-419"), ("en-a-bbb", "en-a-bbb"), ("12", None),
    ],
)  # fmt: skip
def test_tags_of_languages(words: str, tag: str | None) -> None:
    assert language_tag(words) == tag
