"""The commands new, list, info and check; and finding a story by name. They need no model."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import time
from collections import Counter
from pathlib import Path
from typing import Any, cast

from srbwriter import paths
from srbwriter.cli.columns import columns, document, plain
from srbwriter.cli.exits import Exit, Failure, say
from srbwriter.config import Settings, Table
from srbwriter.story import Story, StoryError, library
from srbwriter.story.journal import SUFFIX, move
from srbwriter.story.library import backups
from srbwriter.story.model import counted

STORY = "title, name or file of a story"
"""The help of an argument that names a story."""


def find_story(named: str) -> Path:
    """Return the file of the story with this path, file name, title, or start of a word in its title.

    Case does not matter. Raises Failure for a name that no story or several have.
    """
    if not named.strip():
        raise Failure("which story? give its title, its file's name or its path", Exit.USAGE)
    path = paths.expanded(named)
    _refuse_model(path)
    if path.is_file():
        return path
    if _looks_like_a_path(named):
        problem = "is no file" if path.exists() else "there is no such file"
        raise Failure(f"{path}: {problem} — `srbwriter list` shows the stories there are", Exit.USAGE)
    stories, wanted = library.stories(paths.library_dir()), named.casefold()
    matching = [s.path for s in stories if wanted in (s.title.casefold(), s.path.stem.casefold())]
    if not matching:
        matching = [s.path for s in stories if re.search(rf"\b{re.escape(wanted)}", s.title.casefold())]
    if len(matching) == 1:
        return matching[0]
    words = f"no story is called {named} — `srbwriter list` shows them, `srbwriter --help` the commands"
    if matching:
        words = f"several stories are called {named}: {', '.join(map(str, matching))} — give the path"
    raise Failure(words, Exit.USAGE)


def _looks_like_a_path(named: str) -> bool:
    return named.endswith(SUFFIX) or Path(named).name != named


def _refuse_model(path: Path) -> None:
    """Raise Failure for a model file, recognised by its name."""
    if path.suffix.lower() == ".gguf":
        cure = f"to write with it: srbwriter -m {shlex.quote(str(path))}"
        raise Failure(f"{path}: a model file is no story — {cure}", Exit.USAGE)


def story_to_open(named: str) -> Path:
    """Return the file of the story to open; a path that does not exist yet is a new story. Raises Failure."""
    path = paths.expanded(named)
    if not _looks_like_a_path(named) or path.is_file() or path.is_dir():
        return find_story(named)
    check_new(path)
    if not path.parent.is_dir():
        cure = "correct the path, or make the folder first"
        raise Failure(f"{path}: there is no folder {path.parent} — {cure}", Exit.USAGE)
    return path


def check_new(path: Path | None) -> None:
    """Raise Failure if ``path`` has the name of another kind of file than a story."""
    if path is None:
        return
    _refuse_model(path)
    if path.suffix.lower() not in ("", SUFFIX):
        cure = f"a story ends in {SUFFIX}; `srbwriter import` and `export` are for other files"
        raise Failure(f"{path}: {cure}", Exit.USAGE)


def new_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("title", metavar="TITLE", help="title of the story")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="file to make, outside the library")


def run_new(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Begin a story in the library, and print where it is.

      srbwriter new "The Orchard"
      srbwriter new "The Orchard" -o orchard.srbw
      srbwriter open "$(srbwriter new "The Orchard")"
    """
    title = " ".join(arguments.title.split())
    if not title:
        raise Failure('a story needs a title: srbwriter new "The Orchard"', Exit.USAGE)
    check_new(arguments.output)
    path = arguments.output or library.free_path(paths.library_dir(), title)
    with Story.create(path, title) as story:
        library.remember(story.file)
        print(story.file)
    return Exit.OK


def list_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def run_list(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    List the stories of the library, and those opened lately elsewhere, last changed first.

      srbwriter list
      srbwriter list --json
    """
    stories = library.stories(paths.library_dir())
    if arguments.json:
        print(document([{**story._asdict(), "path": str(story.path)} for story in stories]))
        return Exit.OK
    if not stories:
        say("there is no story yet; srbwriter begins one, and so does `srbwriter new TITLE`")
        return Exit.OK
    cells, home = [("title", "words", "changed", "file")], os.path.expanduser("~/")
    for story in stories:
        changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(story.modified))
        title = story.title if len(story.title) <= 40 else f"{story.title[:39]}…"
        place = re.sub(f"^{re.escape(home)}", "~/", str(story.path))
        cells.append((title, "?" if story.problem else str(story.words), changed, place))
        if story.problem:
            say(f"{story.path} {story.problem} (srbwriter check says more)")
    print(columns(cells, right=(1,)))
    return Exit.OK


def info_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("story", metavar="STORY", help=STORY)
    parser.add_argument("--title", metavar="TITLE", help="give it another title, and its file another name")
    parser.add_argument("--author", metavar="NAME", help="set who writes it")
    parser.add_argument("--language", metavar="TAG", help="set its language: en, de, pt-BR")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run_info(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Say what is in a story: words, branches, chapters, copies. With a flag, set what it is called, who writes
    it and in which language; books and pages made of it say so too.

      srbwriter info orchard
      srbwriter info orchard.srbw --json
      srbwriter info "First story" --title "The Mill"
      srbwriter info orchard --author "Ada L." --language en-GB
    """
    path = find_story(arguments.story).resolve()
    names = ("title", "author", "language")
    given = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    if given:
        with Story.open(path) as story:
            story.set_properties(**given)
            title = story.title
        path = _named_after_title(path, title) if "title" in given else path
    with Story.open(path, readonly=True) as story:
        facts, damage = _facts(story), story.damage
    if damage:
        say(f"{path} is damaged: {damage}")
    if arguments.json:
        print(document(facts))
    else:
        print(plain(str(facts["title"] or path.stem)))
        print(columns([(f"  {name.replace('_', ' ')}", _shown(fact)) for name, fact in facts.items()][1:]))
    return Exit.DAMAGED if damage else Exit.OK


def _named_after_title(path: Path, title: str) -> Path:
    """Move a story of the library to the file name of its title, and return its path."""
    target = library.free_path(path.parent, title)
    base, _, number = target.stem.rpartition("-")
    if path.parent != paths.library_dir().resolve() or (number.isdigit() and path.stem == base):
        return path  # it is elsewhere, or has that name already
    move(path, target)
    library.remember(target)
    return target


def _facts(story: Story) -> dict[str, Any]:
    living, words = story.reading_order(), Counter[str]()
    for node in story.nodes(living):
        words[node.author] += node.count.words
    return {
        **story.properties,
        "file": str(story.file),
        "changed": time.strftime("%Y-%m-%d %H:%M", time.localtime(story.file.stat().st_mtime)),
        "words": story.words(story.current),
        "words_of_all_branches": dict(words),
        "nodes": len(living),
        "ends": sum(not story.children(node) for node in living),
        "chapters": [chapter.title for chapter in story.outline() if chapter.title],
        "backups": len(backups(story.backup_folder(paths.backup_dir()))),
    }


def _shown(fact: Any) -> str:
    if isinstance(fact, dict):
        fact = [f"{name} {number}" for name, number in cast("dict[str, int]", fact).items()]
    return (", ".join(cast("list[str]", fact)) or "none") if isinstance(fact, list) else str(fact)


def check_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("stories", metavar="STORY", nargs="*", help="titles, names or files of stories")


def run_check(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Go over the files of stories, all of the library if none is named. Nothing is changed.

      srbwriter check
      srbwriter check orchard
      srbwriter check drafts/*.srbw || echo "something is damaged"
    """
    named: list[str] = arguments.stories
    found = [find_story(name) for name in named] or sorted(paths.library_dir().glob(f"*{SUFFIX}"))
    worst = Exit.OK
    for file in found:
        try:
            with Story.open(file, readonly=True) as story:
                problem, nodes = story.damage, len(story)
        except StoryError as error:
            say(str(error))
            worst = max(worst, Exit.ERROR)
            continue
        print(f"{file}: {'damaged' if problem else 'sound'}, {counted(nodes, 'node')}")
        if problem:
            worst = Exit.DAMAGED
            print(f"  {problem}\n  copies of it: srbwriter backup list {file}")
    if not found:
        say(f"{paths.library_dir()} holds no story")
    return worst
