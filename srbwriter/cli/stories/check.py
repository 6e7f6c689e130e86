"""``srbwriter check``: whether story files are sound, and exactly what is missing if not."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import paths
from srbwriter.cli.exits import Exit, say
from srbwriter.cli.stories.finding import find_story
from srbwriter.config import Settings, Table

if TYPE_CHECKING:
    from srbwriter.story.check import Report

DESCRIPTION = """\
Go over the files of stories, all of the library if none is named. Nothing is changed.

  srbwriter check
  srbwriter check orchard
  srbwriter check drafts/*.srbw || echo "something is damaged\""""


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("stories", metavar="STORY", nargs="*", help="titles, names or files of stories")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from srbwriter.story import StoryError
    from srbwriter.story.check import check
    from srbwriter.story.store import SUFFIX

    library = sorted(paths.library_dir().glob(f"*{SUFFIX}"))
    named: list[str] = getattr(arguments, "stories", [])
    files = [find_story(name) for name in named] or library
    worst = Exit.OK
    for file in files:
        try:
            report = check(file)
        except StoryError as error:
            say(str(error))
            worst = max(worst, Exit.ERROR)
            continue
        print(_words(file, report))
        if not report.sound:
            worst = Exit.DAMAGED
    if not files:
        say(f"{paths.library_dir()} holds no story")
    return worst


def _words(file: Path, report: Report) -> str:
    from srbwriter.story.model import counted

    if report.sound:
        return f"{file}: sound, {counted(report.nodes, 'node')}"
    lines = [f"{file}: damaged, {counted(report.nodes, 'node')}"]
    if report.damage is not None:
        lines.append(f"  {report.damage}")
    lines += [f"  {problem}" for problem in report.problems]
    lines.append(f"  copies of it: srbwriter backup list {file}")
    return "\n".join(lines)
