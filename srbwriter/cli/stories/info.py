"""``srbwriter info``: what is in a story."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, replace

from srbwriter import paths
from srbwriter.cli.columns import columns, document, plain
from srbwriter.cli.exits import Exit, say
from srbwriter.cli.stories.finding import find_story
from srbwriter.config import Settings, Table
from srbwriter.story import Story
from srbwriter.story.backup import backups

DESCRIPTION = """\
Say what is in a story: words, branches, authors, chapters, progress. With a flag, set what it is called,
who writes it and in which language; books and pages made of it say so too.

  srbwriter info orchard
  srbwriter info orchard.srbw --json
  srbwriter info orchard --author "Ada L." --language en-GB"""

_NAMES = ("title", "author", "language")


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("story", metavar="STORY", help="title, name or file of a story")
    parser.add_argument(
        "--title", metavar="TITLE", help="set the title; `srbwriter rename` gives the file a new name too"
    )
    parser.add_argument("--author", metavar="NAME", help="set who writes it")
    parser.add_argument("--language", metavar="TAG", help="set its language: en, de, pt-BR …")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    path = find_story(arguments.story)
    given = {name: getattr(arguments, name) for name in _NAMES if hasattr(arguments, name)}
    if given:
        with Story.open(path) as story:
            story.set_properties(replace(story.properties, **given))
    with Story.open(path, readonly=True) as story:
        facts = _facts(story)
        code = Exit.OK
        if story.damage is not None:
            say(f"{story.file} is damaged: {story.damage}")
            code = Exit.DAMAGED
    if getattr(arguments, "json", False):
        print(document(facts))
        return code
    print(plain(str(facts["title"] or story.file.stem)))
    print(columns([(f"  {name.replace('_', ' ')}", _shown(fact)) for name, fact in facts.items()][1:]))
    return code


def _facts(story: Story) -> dict[str, object]:
    today, days = story.today(), story.days()
    living = list(story.reading_order())
    return {
        **asdict(story.properties),
        "id": story.id,
        "file": str(story.file),
        "changed": time.strftime("%Y-%m-%d %H:%M", time.localtime(story.file.stat().st_mtime)),
        "words": story.words(story.current),
        "words_of_all_branches": story.words_by_author(),
        "words_today": today.words,
        "days_of_writing": len(days),
        "hours_of_writing": round(sum(day.seconds for day in days.values()) / 3600, 1),
        "nodes": len(living),
        "ends": sum(not story.children(node) for node in living),
        "unread": len(story.unread()),
        "in_the_bin": len(story.bin()),
        "chapters": [story.marks(node).title for node in story.chapters()],
        "bookmarks": len(story.bookmarks()),
        "tags": story.tags(),
        "backups": len(backups(story.backup_folder(paths.backup_dir()))),
    }


def _shown(fact: object) -> str:
    match fact:
        case dict():
            return ", ".join(f"{name} {number}" for name, number in fact.items()) or "none"  # pyright: ignore
        case list():
            return ", ".join(map(str, fact)) or "none"  # pyright: ignore
        case _:
            return str(fact)
