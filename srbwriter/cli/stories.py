"""The commands on stories: new, list, info, rename, export, import and check; and finding a story by name.

None of these commands needs a model or a screen.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from srbwriter import paths
from srbwriter.cli.columns import columns, document, plain
from srbwriter.cli.exits import Exit, Failure, say
from srbwriter.config import Settings, Table
from srbwriter.gguf import is_gguf
from srbwriter.story import DamagedStory, Story, StoryError, files, library
from srbwriter.story.backup import backups
from srbwriter.story.model import counted
from srbwriter.story.store import SUFFIX

if TYPE_CHECKING:
    from srbwriter.formats import FolderFormat, Format

T = TypeVar("T")

_STANDARD_INPUT, _STANDARD_STREAM = Path("standard input"), Path("-")
_BINARY = (".docx", ".epub")
_STORY = "title, name or file of a story"


# ---- finding a story by its path, or by its name in the library or among recently opened stories


def recents() -> library.RecentStories:
    return library.RecentStories(paths.recent_file())


def opened(path: Path, title: str) -> None:
    """Put a story first in the list of recently opened stories."""
    recents().add(path, title, time.time())


def _looks_like_a_path(named: str) -> bool:
    return named.endswith(SUFFIX) or Path(named).name != named


def find_story(named: str) -> Path:
    """Return the file of the existing story called ``named``. Raises Failure.

    ``named`` is a path, a file name without suffix, a title, or the start of a word that is in one title
    only; case does not matter.
    """
    if not named.strip():
        raise Failure("which story? give its title, its file's name or its path", Exit.USAGE)
    path = paths.expanded(named)
    _refuse_model(path)
    if path.is_file():
        return path
    if _looks_like_a_path(named):
        problem = "there is no such file — `srbwriter list` shows those there are"
        if path.exists():
            problem = "is a folder, a pipe or a device — name a story, which is a file"
        raise Failure(f"{path}: {problem}", Exit.USAGE)
    stories = files.known(paths.library_dir(), recents())
    matching = best_named(named.casefold(), [(story.path, story.title, story.path) for story in stories])
    direct = paths.library_dir() / f"{named}{SUFFIX}"
    if direct.is_file() and direct not in matching:  # it is called something else, or damaged
        return direct
    if len(matching) > 1:
        listed = ", ".join(map(str, matching))
        raise Failure(f"several stories are called {named}: {listed} — give the path", Exit.USAGE)
    if not matching:
        cure = "`srbwriter list` shows the stories, `srbwriter help` the commands"
        raise Failure(f"no story is called {named} — {cure}", Exit.USAGE)
    return matching[0]


def best_named(wanted: str, named: Iterable[tuple[T, str, Path]]) -> list[T]:
    """Return the items of this title or file name, else those with a title word that starts with it.

    ``wanted`` is in lower case; each item comes with its title and the path of its file.
    """
    rows = [(thing, title.casefold(), path.stem.casefold()) for thing, title, path in named]
    begun = re.compile(rf"\b{re.escape(wanted)}")
    exact = [thing for thing, title, stem in rows if wanted in (title, stem)]
    return exact or [thing for thing, title, _ in rows if begun.search(title)]


def story_to_open(named: str) -> Path:
    """Return the file of the story to open; a path that does not exist yet is a new story.

    Raises Failure for a model, for the name of an exported file, and if the folder is missing.
    """
    path = paths.expanded(named)
    if not _looks_like_a_path(named) or path.is_file() or path.is_dir():
        return find_story(named)
    path_for_story(path)
    if not path.parent.is_dir():
        cure = "correct the path, or make the folder first"
        raise Failure(f"{path}: there is no folder {path.parent} — {cure}", Exit.USAGE)
    return path


def _refuse_model(path: Path) -> None:
    """Raise Failure for a model file, recognised by its name or its first bytes."""
    if path.suffix.lower() == ".gguf" or is_gguf(path):
        cure = f"to write with it: srbwriter -m {shlex.quote(str(path))}"
        raise Failure(f"{path}: a model file is no story — {cure}", Exit.USAGE)


def path_for_story(output: Path | None) -> Path | None:
    """Return the path for a new story. Raises Failure for the name of an exported file or of a model."""
    if output is None:
        return None
    _refuse_model(output)
    if output.suffix.lower() in ("", SUFFIX):
        return output
    from srbwriter import formats  # a tenth of a second, which the app's start need not wait for

    if (form := formats.for_file(output)) is not None:
        cure = f"a story ends in {SUFFIX}; `srbwriter export` makes a {form.extension} of one"
        raise Failure(f"{output}: {cure}", Exit.USAGE)
    return output


# ---- new, list, info, rename, check


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
    path = path_for_story(arguments.output) or library.free_path(paths.library_dir(), title)
    with Story.create(path, title) as story:
        opened(story.file, story.title)
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
    stories = files.known(paths.library_dir(), recents())
    if arguments.json:
        names = ("title", "words", "nodes", "modified", "size", "problem")
        rows = [{"path": str(s.path), **{name: getattr(s, name) for name in names}} for s in stories]
        print(document(rows))
        return Exit.OK
    if not stories:
        say("there is no story yet; srbwriter begins one, and so does `srbwriter new TITLE`")
        return Exit.OK
    cells = [("title", "words", "changed", "file")]
    for story in stories:
        changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(story.modified))
        cells.append((story.title, "?" if story.problem else str(story.words), changed, str(story.path)))
        if story.problem:
            cure = f" — srbwriter check {shlex.quote(str(story.path))} says more"
            say(f"{story.path} {story.problem}{'' if ' — ' in story.problem else cure}")
    print(columns(cells, right=(1,)))
    return Exit.OK


def info_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("story", metavar="STORY", help=_STORY)
    parser.add_argument(
        "--title", metavar="TITLE", help="set the title; `srbwriter rename` gives the file a new name too"
    )
    parser.add_argument("--author", metavar="NAME", help="set who writes it")
    parser.add_argument("--language", metavar="TAG", help="set its language: en, de, pt-BR")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run_info(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Say what is in a story: words, branches, authors, chapters, progress. With a flag, set what it is
    called, who writes it and in which language; books and pages made of it say so too.

      srbwriter info orchard
      srbwriter info orchard.srbw --json
      srbwriter info orchard --author "Ada L." --language en-GB
    """
    path = find_story(arguments.story)
    names = ("title", "author", "language")
    given = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    if given:
        with Story.open(path) as story:
            story.set_properties(replace(story.properties, **given))
    with Story.open(path, readonly=True) as story:
        facts, damage = _facts(story), story.damage
    if damage is not None:
        say(f"{path} is damaged: {damage}")
    if arguments.json:
        print(document(facts))
    else:
        print(plain(str(facts["title"] or path.stem)))
        print(columns([(f"  {name.replace('_', ' ')}", _shown(fact)) for name, fact in facts.items()][1:]))
    return Exit.OK if damage is None else Exit.DAMAGED


def _facts(story: Story) -> dict[str, Any]:
    days, living, outline = story.days(), list(story.reading_order()), story.outline()
    return {
        **asdict(story.properties),
        "id": story.id,
        "file": str(story.file),
        "changed": time.strftime("%Y-%m-%d %H:%M", time.localtime(story.file.stat().st_mtime)),
        "words": story.words(story.current),
        "words_of_all_branches": story.words_by_author(),
        "words_today": story.today().words,
        "days_of_writing": len(days),
        "hours_of_writing": round(sum(day.seconds for day in days.values()) / 3600, 1),
        "nodes": len(living),
        "ends": sum(not story.children(node) for node in living),
        "unread": len(story.unread()),
        "in_the_bin": len(story.bin()),
        "chapters": [chapter.title for chapter in outline if chapter.title],
        "outline": [{"title": chapter.shown, "words": chapter.words} for chapter in outline],
        "bookmarks": len(story.bookmarks()),
        "tags": sorted({tag for node in story for tag in node.tags}),
        "backups": len(backups(story.backup_folder(paths.backup_dir()))),
    }


def _shown(fact: Any) -> str:
    if isinstance(fact, dict):
        fact = [f"{name} {number}" for name, number in cast("dict[str, int]", fact).items()]
    if not isinstance(fact, list):
        return str(fact)
    items = cast("list[Any]", fact)
    return ", ".join(f"{x['title']} ({x['words']})" if isinstance(x, dict) else x for x in items) or "none"


def rename_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("story", metavar="STORY", help=_STORY)
    parser.add_argument("title", metavar="TITLE", help="its new title")
    parser.add_argument("--keep-file", action="store_true", help="leave the file where it is")


def run_rename(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Give a story another title. Its file gets a new name too if it is in the library.

      srbwriter rename "First story" "The Orchard"
      srbwriter rename orchard.srbw "The Orchard"
      srbwriter rename orchard "The Orchard" --keep-file
    """
    path = find_story(arguments.story).resolve()
    with Story.open(path) as story:
        story.rename(arguments.title)
        title = story.title
    if path.parent == paths.library_dir().resolve() and not arguments.keep_file:
        target = library.free_path(path.parent, title)
        base, _, number = target.stem.rpartition("-")
        if not (number.isdigit() and path.stem == base):  # else it has that name already
            recents().remove(path)
            path = library.move(path, target)
            opened(path, title)
    print(path)
    return Exit.OK


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
        except DamagedStory as error:
            problem, nodes = error.problem, 0
        except StoryError as error:
            say(str(error))
            worst = max(worst, Exit.ERROR)
            continue
        print(f"{file}: {'sound' if problem is None else 'damaged'}, {counted(nodes, 'node')}")
        if problem is not None:
            worst = Exit.DAMAGED
            print(f"  {problem}\n  copies of it: srbwriter backup list {file}")
    if not found:
        say(f"{paths.library_dir()} holds no story")
    return worst


# ---- export and import


def _find_format(name: str, forms: Sequence[Format | FolderFormat], verb: str) -> Format | FolderFormat:
    """Return the format called ``name``. Raises Failure; ``verb`` is the purpose in the message."""
    from srbwriter import formats

    known = {form.name: form for form in forms}
    if (form := known.get(formats.ALIASES.get(name, name))) is None:
        listed = ", ".join(known)
        raise Failure(f"no format to {verb} is called {name}; there are {listed}", Exit.USAGE)
    return form


def _print_formats(forms: Sequence[Format | FolderFormat]) -> int:
    print(columns([(form.name, form.extension, form.label) for form in forms]))
    return Exit.OK


def export_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("story", metavar="STORY", nargs="?", help=_STORY)
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, default=_STANDARD_STREAM,
        help="file to write; - or nothing is standard output",
    )  # fmt: skip
    parser.add_argument("--format", metavar="NAME", help="a format's name; `--format list` lists them")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def run_export(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Write a story as a book, text or JSON. The format follows from the file's extension, or is named.

      srbwriter export orchard -o orchard.epub
      srbwriter export orchard -o orchard.docx
      srbwriter export orchard.srbw -o orchard.json
      srbwriter export orchard -o orchard.loom.json
      srbwriter export orchard -o - --format text | wc -w
    """
    from srbwriter import formats
    from srbwriter.formats import transfer

    name: str | None = arguments.format
    output: Path = arguments.output
    force: bool = arguments.force
    if name == "list":
        return _print_formats(formats.writable())
    if arguments.story is None:
        raise Failure("which story? srbwriter export STORY -o FILE", Exit.USAGE)
    streamed = output == _STANDARD_STREAM
    form = _find_format(name, formats.writable(), "export to") if name else formats.for_file(output)
    if form is None and not streamed:
        raise Failure(f"{formats.no_extension(output)}, or --format", Exit.USAGE)
    form = form or formats.by_name("markdown")
    if streamed and form.extension in _BINARY and sys.stdout.isatty():
        raise Failure(f"{form.label} is not for a terminal; name a file with -o", Exit.USAGE)
    if not streamed:  # what cannot be written is said before any work is done
        if output.is_file() and not force:
            raise Failure(f"{output} is there already; --force replaces it", Exit.USAGE)
        transfer.check_target(output, force=force)
    source = find_story(arguments.story)
    try:
        if streamed:
            _, data = transfer.rendered(source, form.name)
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            transfer.Export(source, output, form.name, force).run()
    except DamagedStory as error:
        raise Failure(f"{source} is damaged: {error.problem}", Exit.DAMAGED) from error
    return Exit.OK


def import_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument(
        "files", metavar="FILE", nargs="*", type=Path, help="file or folder; - is standard input"
    )
    parser.add_argument("--as-one", action="store_true", help="make one story of all files, each a chapter")
    parser.add_argument("--title", metavar="TITLE", default="", help="title instead of the file's own")
    parser.add_argument(
        "--encoding", metavar="NAME", default="", help="encoding of a text that is not in UTF: cp1252 …"
    )
    parser.add_argument(
        "--format", metavar="NAME", default="",
        help="read it as this format, whatever it looks like; `list` lists them",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="STORY", type=Path, help="story to make, outside the library"
    )


def run_import(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Make a story of a file or a project: Word, OpenDocument, EPUB, HTML, Markdown, text, Scrivener,
    Obsidian, Loom, mikupad, Kobold Lite, SillyTavern, NovelAI, ChatGPT, Claude and more.

      srbwriter import tree.json
      srbwriter import novel.docx
      srbwriter import chapters/*.md
      srbwriter import chapters/ --as-one
      srbwriter import one.md novel.docx --as-one --title "The Orchard"
      srbwriter import Novel.scriv
      srbwriter import --encoding cp1252 old.txt
      srbwriter import chat.jsonl --title "The Orchard" -o orchard.srbw
      curl -s https://example.org/tale.txt | srbwriter import -
    """
    from srbwriter import formats
    from srbwriter.formats import transfer

    form: str = arguments.format
    known = (*formats.FORMATS, *formats.FOLDERS)
    if form == "list":
        return _print_formats(known)
    if form:
        _find_format(form, known, "import")
    named: list[Path] = arguments.files
    as_one: bool = arguments.as_one
    if not named:
        raise Failure("which file? srbwriter import FILE", Exit.USAGE)
    output = path_for_story(arguments.output)
    if as_one and _STANDARD_STREAM in named and len(named) > 1:
        raise Failure("--as-one takes files and folders, and - is neither", Exit.USAGE)
    if output is not None and len(named) > 1 and not as_one:
        raise Failure("-o makes one story of several files with --as-one", Exit.USAGE)
    code = Exit.OK
    for file, *more in [named] if as_one else [[file] for file in named]:
        work = transfer.Import(
            file, paths.library_dir(), output, arguments.title, encoding=arguments.encoding, form=form,
            as_one=as_one, more=tuple(more),
        )  # fmt: skip
        if file == _STANDARD_STREAM:
            data = sys.stdin.buffer.read()
            work = replace(work, file=_STANDARD_INPUT, data=data, untitled="Imported story")
        try:
            landed = work.run()
        except (StoryError, formats.FormatError) as error:
            say(str(error))
            there = file == _STANDARD_STREAM or os.path.lexists(file)
            code = Exit.ERROR if there or code == Exit.ERROR else Exit.USAGE
            continue
        opened(landed.path, landed.title)
        print(landed.path)
        for notice in landed.notices:
            say(f"{work.file}: {notice}")
    return code
