"""Changing the model: the files there are, with what each will need. Also the words for one that fails.

Looks at files by name and size; only the session loads one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import paths
from srbwriter.demo import bundled_model
from srbwriter.tui.screens.picker import Choice, Picker

if TYPE_CHECKING:
    from srbwriter.tui.screens.desk import Desk

_OVERHEAD = 1.15
"""Memory of a loaded model over its file: compute buffers and a context of the usual size."""


def size_words(size: float) -> str:
    """Bytes in words, for example ``3.4 GB``."""
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def choices() -> list[Choice]:
    """The bundled model and every GGUF file in the models folder."""
    found = [bundled_model(), *sorted(paths.models_dir().glob("**/*.gguf"))]
    listed: list[Choice] = []
    for file in found:
        try:
            size = file.stat().st_size
        except OSError:
            continue
        about = f"{size_words(size)}, needs about {size_words(size * _OVERHEAD)} of memory"
        listed.append(Choice(file, file.stem, about))
    return listed


def choose_model(desk: Desk) -> None:
    """Let the writer choose, and load it while the story stays."""

    def chosen(file: Path | None) -> None:
        if file is not None:
            desk.guarded(lambda: desk.session.load_model(file))

    foot = f"model files belong into {paths.models_dir()} · enter loads one · esc goes back"
    desk.bench.push_screen(Picker("Models", choices(), foot=foot), chosen)
