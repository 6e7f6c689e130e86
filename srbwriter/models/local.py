"""The models of this machine: the bundled one, the models folder, and the caches of other programs.

Headers are read only for a list; finding a model by its name reads no file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Literal

from srbwriter import paths
from srbwriter.demo import bundled_model
from srbwriter.models.files import Header, ModelsError, is_model, part_names, part_of, read_header, unusable

Place = Literal["bundled", "models folder", "Hugging Face", "LM Studio"]


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model of this machine with what its header says; ``size`` is in bytes, of all its files.

    ``problem`` says why it cannot be used and is empty otherwise; ``header`` is None then.
    """

    place: Place
    path: Path
    name: str
    size: int
    header: Header | None
    problem: str = ""


def _hub_cache() -> Path:
    """Return the cache of other programs; as ``huggingface_hub.constants`` has it."""
    home = paths.expanded(os.environ.get("HF_HOME") or "~/.cache/huggingface")
    return paths.expanded(os.environ.get("HF_HUB_CACHE") or home / "hub")


def _folders() -> list[tuple[Place, Path]]:
    """Return where models of this machine lie, whether the folders exist or not."""
    return [
        ("models folder", paths.models_dir()),
        ("Hugging Face", _hub_cache()),
        ("LM Studio", paths.expanded("~/.lmstudio/models")),
    ]


def local_files() -> Iterator[tuple[Place, Path]]:
    """Yield the first file of every model, the nearest place first; the same file is given once."""
    yield "bundled", bundled_model()
    seen: set[Path] = set()
    for place, top in _folders():
        for path in _files(top):
            if (real := path.resolve()) not in seen:
                seen.add(real)
                yield place, path


def _files(top: Path) -> Iterator[Path]:
    """Yield the first files of the models below ``top``, also behind links, in order."""
    for name in sorted(glob("**/*", root_dir=top, recursive=True)):
        if is_model(name) and part_of(name)[1] == 1:
            yield top / name


def local_models() -> list[LocalModel]:
    """Return every model of this machine with its header; files that are only a part of one are left out."""
    found = [look_at(path, place) for place, path in local_files()]
    return [model for model in found if model.problem or (model.header and model.header.kind == "model")]


def look_at(path: Path, place: Place = "models folder") -> LocalModel:
    """Describe the model in a file, without loading it."""
    path, size, problem, header = path.absolute(), 0, "", None
    try:
        size = _size(path)
        header = read_header(path)
    except ModelsError as error:
        problem = error.problem
    return LocalModel(place, path, part_of(path.name)[0], size, header, problem)


def _size(path: Path) -> int:
    """Return the bytes of all files of a model. Raises ModelsError if one is missing."""
    total = 0
    for name in part_names(path.name):
        try:
            total += path.with_name(name).stat().st_size
        except OSError as error:
            problem = "no such file" if name == path.name else f"{name} is missing"
            raise unusable(path, problem) from error
    return total


def find(name: str) -> Path:
    """Return the model called ``name``: with or without suffix, or a path within its place.

    Raises ModelsError, which names all that share the name.
    """
    tops = [top for _, top in _folders()]
    matching = [
        (place, path)
        for place, path in local_files()
        if name in (part_of(path.name)[0], path.name, str(path))
        or any(path.is_relative_to(top) and name == str(path.relative_to(top)) for top in tops)
    ]
    if not matching:
        raise ModelsError(f"no model is called {name} — `srbwriter models` lists those there are")
    nearest = [path for place, path in matching if place == matching[0][0]]
    if len(nearest) > 1:
        raise ModelsError(f"several models are called {name}: {', '.join(map(str, nearest))} — give the path")
    return nearest[0]
