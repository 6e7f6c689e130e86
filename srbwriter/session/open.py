"""Finding the story to open, and the token lengths of the model's vocabulary."""

from __future__ import annotations

import logging
import threading
from codecs import getincrementaldecoder
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import paths
from srbwriter.story import Story, StoryError, library
from srbwriter.story.model import TokenSizes

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend


log = logging.getLogger(__name__)

_FIRST = "First story"


def open_story(path: Path | None) -> Story:
    title = ""
    if path is None:
        path = next(iter(library.recent_stories()), library.free_path(paths.library_dir(), _FIRST))
        title = path.stem.replace("-", " ")  # unlike titles, file names have no spaces
    path = paths.expanded(path)
    story = Story.open(path) if path.exists() else Story.create(path, title)
    library.remember(path)
    if story.read_only is None and len(story) > 1:
        _copy_of_the_day(story)
    return story


def _copy_of_the_day(story: Story) -> None:
    """Make the daily backup on a thread."""
    file, folder = story.file, story.backup_folder(paths.backup_dir())

    def copy() -> None:
        try:
            library.daily(file, folder)
        except StoryError as error:
            log.warning("no copy of the day: %s", error)

    # Not a daemon: a copy in progress is finished before the program ends.
    threading.Thread(target=copy, name="srbwriter-backup").start()


def token_sizes(engine: Backend) -> TokenSizes:
    """Return the number of characters that each token adds, for cuts through generated text."""
    vocabulary = engine.info.vocab

    def sizes(vocab: str, ids: Sequence[int]) -> list[int] | None:
        if vocab != vocabulary:
            return None
        decoder = getincrementaldecoder("utf-8")("replace")
        return [len(decoder.decode(piece)) for piece in engine.pieces(ids)]

    return sizes
