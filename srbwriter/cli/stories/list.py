"""``srbwriter list``: the stories there are."""

from __future__ import annotations

import argparse
import shlex
import time

from srbwriter.cli.columns import columns, document
from srbwriter.cli.exits import Exit, say
from srbwriter.cli.stories.finding import known_stories
from srbwriter.config import Settings, Table
from srbwriter.story import library

DESCRIPTION = """\
List the stories of the library, and those opened lately elsewhere, last changed first.

  srbwriter list
  srbwriter list --json"""


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    stories = known_stories()
    if getattr(arguments, "json", False):
        print(document([_as_json(story) for story in stories]))
        return Exit.OK
    if not stories:
        say("there is no story yet; srbwriter begins one, and so does `srbwriter new TITLE`")
        return Exit.OK
    rows = [("title", "words", "changed", "file"), *map(_cells, stories)]
    print(columns(rows, right=(1,)))
    for story in stories:
        if story.problem:
            say(f"{story.path} {story.problem} — srbwriter check {shlex.quote(str(story.path))} says more")
    return Exit.OK


def _cells(story: library.StoryInfo) -> tuple[str, ...]:
    changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(story.modified))
    return story.title, "?" if story.problem else str(story.words), changed, str(story.path)


def _as_json(story: library.StoryInfo) -> dict[str, object]:
    return {
        "title": story.title,
        "path": str(story.path),
        "words": story.words,
        "nodes": story.nodes,
        "modified": story.modified,
        "size": story.size,
        "problem": story.problem,
    }
