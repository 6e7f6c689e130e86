"""Finding the story to open, and telling it about the model's vocabulary."""

from __future__ import annotations

import time
from codecs import getincrementaldecoder
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import paths
from srbwriter.story import Story, TokenSizes, library

if TYPE_CHECKING:
    from srbwriter.engine.engine import Engine


def open_story(path: Path | None) -> Story:
    recent = library.RecentStories(paths.recent_file())
    if path is None:
        known = recent.all()
        path = known[0].path if known else library.free_path(paths.library_dir(), "First story")
    path = path.expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    story = Story.open(path) if path.exists() else Story.create(path)
    recent.add(path, story.title, time.time())
    return story


def token_sizes(engine: Engine) -> TokenSizes:
    """How many characters each token adds, for cuts through generated text."""
    model = engine.model

    def sizes(vocab: str, ids: Sequence[int]) -> list[int] | None:
        if vocab != model.fingerprint:
            return None
        decoder = getincrementaldecoder("utf-8")("replace")
        return [len(decoder.decode(model.pieces.bytes[t])) for t in ids]

    return sizes
