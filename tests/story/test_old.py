"""Stories that version 0.5.0 wrote: they open with the same text, branches, notes, memory and lore."""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict
from pathlib import Path

import pytest

from srbwriter import paths
from srbwriter.story import Story
from srbwriter.story.library import backups

OLD = Path(__file__).parent / "old"


@pytest.mark.parametrize("name", sorted(path.name.split(".")[0] for path in OLD.glob("*.srbw.gz")))
def test_an_old_story_is_the_same(name: str, tmp_path: Path) -> None:
    file = tmp_path / "old.srbw"
    file.write_bytes(data := gzip.decompress((OLD / f"{name}.srbw.gz").read_bytes()))
    seen = json.loads((OLD / f"{name}.json").read_text("utf-8"))
    for entry in seen["settings"]["lore"]:
        del entry["meta"]
    for _ in range(2):  # once upgraded, and once as it was written anew
        with Story.open(file) as story:
            assert story.read_only is None
            assert story.text(story.current) == seen["text"]  # with the headings, which are lines now
            assert [chapter.title for chapter in story.outline()] == seen["outline"]
            assert (story.title, story.current, story.bin()) == (seen["title"], seen["current"], seen["bin"])
            properties = story.properties
            assert (properties["author"], properties["language"]) == (seen["author"], seen["language"])
            assert properties["id"] == seen["id"] and story.value("drafts") == seen["value"]
            settings = json.loads(json.dumps(asdict(story.settings(story.current))))
            assert {name: settings[name] for name in seen["settings"]} == seen["settings"]
            days = {
                day: (done["typed"] + done["picked"], done["seconds"]) for day, done in seen["days"].items()
            }
            assert {day: (done.words, done.seconds) for day, done in story.days().items()} == days
            for node, old in zip(story.nodes(list(story.reading_order())), seen["tree"], strict=True):
                number, parent, author, text, note, tags, bookmark, visited, _, model, seed, *rest = old
                assert (node.id, node.parent, node.author) == (number, parent, author)
                assert (node.note, list(node.tags), node.bookmark) == (note, tags, bookmark)
                assert (node.visited, node.model, node.seed) == (visited, model, seed)
                assert [dict(node.sampling), node.finish_reason] == rest[:2]
                if not seen["outline"]:
                    spans = [[s.text, s.author, [*s.ids], s.vocab, [*s.logprobs], s.lead] for s in node.spans]
                    assert (node.text, spans) == (text, rest[2])
            [copy] = backups(story.backup_folder(paths.backup_dir()))
    assert copy.path.read_bytes() == data
