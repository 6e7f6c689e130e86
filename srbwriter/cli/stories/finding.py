"""Which story is meant: a path, or the name of one in the library or among those opened lately."""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from pathlib import Path

from srbwriter import paths
from srbwriter.cli.exits import Exit, Failure
from srbwriter.story import NotAStory, library
from srbwriter.story.store import SUFFIX


def known_stories() -> list[library.StoryInfo]:
    """The stories of the library and those opened lately elsewhere, last changed first."""
    found = {story.path.resolve(): story for story in library.stories(paths.library_dir())}
    for path in (recent.path for recent in recents().all()):
        if path not in found:
            try:
                found[path] = library.info(path)
            except NotAStory:
                continue
    return sorted(found.values(), key=lambda story: (-story.modified, story.title))


def recents() -> library.RecentStories:
    return library.RecentStories(paths.recent_file())


def opened(path: Path, title: str) -> None:
    """Put a story first among those opened lately."""
    recents().add(path, title, time.time())


def looks_like_a_path(named: str) -> bool:
    return named.endswith(SUFFIX) or Path(named).name != named


def find_story(named: str, commands: Collection[str] = ()) -> Path:
    """The file of the story called ``named``, which exists.

    Args:
        named: a path, a file's name without suffix, a title, or the beginning of words of one title alone;
            case does not matter.
        commands: names that could have been meant as well.

    Raises Failure, with the nearest names.
    """
    path = Path(named).expanduser()
    if path.is_file():
        return path
    if looks_like_a_path(named):
        raise Failure(f"{path}: there is no such file")
    direct = paths.library_dir() / f"{named}{SUFFIX}"
    if direct.is_file():
        return direct
    stories = known_stories()
    matching = _called(named.casefold(), stories)
    if len(matching) > 1:
        listed = ", ".join(str(story.path) for story in matching)
        raise Failure(f"several stories are called {named}: {listed} — give the path", Exit.USAGE)
    if not matching:
        raise Failure(_not_found(named, stories, commands), Exit.USAGE)
    return matching[0].path


def _called(wanted: str, stories: list[library.StoryInfo]) -> list[library.StoryInfo]:
    """The stories of that very name, or else those with a word in their title that begins so."""
    exact = [story for story in stories if wanted in (story.path.stem.casefold(), story.title.casefold())]
    begun = re.compile(rf"\b{re.escape(wanted)}")
    return exact or [story for story in stories if begun.search(story.title.casefold())]


def _not_found(named: str, stories: list[library.StoryInfo], commands: Collection[str]) -> str:
    from difflib import get_close_matches

    names = {story.title for story in stories} | {story.path.stem for story in stories}
    near = get_close_matches(named, [*sorted(names), *commands], n=3, cutoff=0.6)
    cure = f"did you mean {' or '.join(near)}?" if near else "`srbwriter list` shows those there are"
    thing = "story or command" if commands else "story"
    return f"no {thing} is called {named} — {cure}"


def story_to_open(named: str, commands: Collection[str] = ()) -> Path:
    """The story to write in; a path that does not exist yet is a new story. Raises Failure."""
    path = Path(named).expanduser()
    return path if looks_like_a_path(named) else find_story(named, commands)
