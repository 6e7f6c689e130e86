"""The bundled model: where it lies, and nothing else.

This room must never know an engine, a story or a face; it hands out a path.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["bundled_model"]


def bundled_model() -> Path:
    """Return the path of the GGUF model that ships with the package."""
    return Path(__file__).with_name("storyteller.gguf")
