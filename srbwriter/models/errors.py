"""What can go wrong with model files. Every message names the thing and the cure."""

from __future__ import annotations

from pathlib import Path


class ModelsError(Exception):
    """Base of everything this room raises on purpose; ``str()`` is fit for a person."""


class BadModelFile(ModelsError):
    """A file is no model that can be used."""

    def __init__(self, path: Path, problem: str, cure: str = "") -> None:
        self.path, self.problem, self.cure = path, problem, cure
        super().__init__(f"{path}: {problem}" + (f" — {cure}" if cure else ""))


class NoSuchModel(ModelsError):
    """No model, or more than one, goes by a name."""


class DownloadError(ModelsError):
    """A model did not get here. What has arrived is kept wherever going on from it is possible."""
