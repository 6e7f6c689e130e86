"""The path of the bundled model.

This package never imports an engine, a story or a face.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["bundled_model"]


def bundled_model() -> Path:
    """Return the path of the GGUF model that ships with the package."""
    return Path(__file__).with_name("storyteller.gguf")
