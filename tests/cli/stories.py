"""Stories in the library of the command-line tests."""

from __future__ import annotations

from pathlib import Path

from srbwriter import paths
from srbwriter.story import ROOT, Story, library
from tests.story.branches import added


def make(title: str = "The Orchard", text: str = "It was spring.", path: Path | None = None) -> Path:
    path = path or library.free_path(paths.library_dir(), title)
    path.parent.mkdir(parents=True, exist_ok=True)
    with Story.create(path, title) as story:
        node = story.append(text)
        added(story, node, [" One.", " Two."], "model")
    return path


def library_files() -> set[str]:
    return {path.name for path in paths.library_dir().glob("*.srbw")}


def damaged(nodes: int = 400) -> Path:
    """A story with noise over a page in its middle."""
    path = make()
    with Story.open(path) as story:
        added(story, ROOT, [f"Node {number}. " * 20 for number in range(nodes)])
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2 // 4096 * 4096)
        file.write(b"\xff" * 4096)
    return path
