"""The models of this machine: the bundled one, the models folder, and the caches of other programs.

Headers are read only for a list; finding a model by its name reads no file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import unquote, urlsplit

from srbwriter import paths
from srbwriter.demo import bundled_model
from srbwriter.models.files import (
    SUFFIX,
    Header,
    ModelsError,
    is_model,
    part_names,
    parts_of,
    quantisation,
    read_header,
    unusable,
)
from srbwriter.models.fit import suggest

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
    quantisation: str
    header: Header | None
    problem: str = ""


def _hub_cache() -> Path:
    """Return the cache of other programs; as ``huggingface_hub.constants`` has it."""
    if named := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return paths.expanded(named)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or paths.expanded("~/.cache"))
    return paths.expanded(os.environ.get("HF_HOME") or cache / "huggingface") / "hub"


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
        if is_model(name) and parts_of(name).number == 1:
            yield top / name


def local_models() -> list[LocalModel]:
    """Return every model of this machine with its header; files that are only a part of one are left out."""
    found = [look_at(path, place) for place, path in local_files()]
    return [model for model in found if model.problem or (model.header and model.header.kind == "model")]


def look_at(path: Path, place: Place = "models folder") -> LocalModel:
    """Describe the model in a file, without loading it."""
    size, problem, header = 0, "", None
    try:
        size = _size(path)
        header = read_header(path)
    except ModelsError as error:
        problem = error.problem
    return LocalModel(place, path, parts_of(path.name).stem, size, quantisation(path.name), header, problem)


def _size(path: Path) -> int:
    """Return the bytes of all files of a model. Raises ModelsError if one is missing."""
    total = 0
    for name in part_names(path.name):
        try:
            total += path.with_name(name).stat().st_size
        except OSError as error:
            raise unusable(path, f"{name} is missing ({error.strerror})") from error
    return total


def find(name: str) -> Path:
    """Return the model called ``name``: with or without suffix, or a path within its place.

    Raises ModelsError, which names all that share the name.
    """
    tops = [top for _, top in _folders()]
    matching = [
        (place, path)
        for place, path in local_files()
        if name in (parts_of(path.name).stem, path.name, str(path))
        or any(path.is_relative_to(top) and name == str(path.relative_to(top)) for top in tops)
    ]
    if not matching:
        raise ModelsError(f"no model is called {name} — `srbwriter models` lists those there are")
    nearest = [path for place, path in matching if place == matching[0][0]]
    if len(nearest) > 1:
        raise ModelsError(f"several models are called {name}: {', '.join(map(str, nearest))} — give the path")
    return nearest[0]


# ---- models of the net, as people name them

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request: a repository, and a quantisation or file of it, if one was named."""

    repo: str
    what: str = ""

    @classmethod
    def parse(cls, text: str) -> Wanted:
        """Read ``OWNER/REPO[:QUANT or FILE]``; a page's address will do. Raises ModelsError."""
        bare = re.sub(r"^(https?://)?(huggingface\.co|hf\.co)/", "", text.strip())
        repo, _, what = bare.partition(":")
        if not _REPOSITORY.fullmatch(repo) or any(part.strip(".") == "" for part in repo.split("/")):
            raise ModelsError(
                f"{text}: expected OWNER/REPO, OWNER/REPO:QUANT or OWNER/REPO:FILE — "
                "`srbwriter models recommended` lists models by these names"
            )
        return cls(repo, what)

    @property
    def folder(self) -> Path:
        """Where models of the repository are kept: ``OWNER/REPO``, as LM Studio keeps its own."""
        return paths.models_dir() / self.repo


def matches(files: Sequence[str], what: str) -> list[int]:
    """Return the places of the files that ``what`` names: by path, by name, or by quantisation."""
    kinds = [quantisation(file) for file in files]
    for names, wanted in (
        (files, what), ([PurePosixPath(file).name for file in files], what), (kinds, what.upper()),
        ([kind.removeprefix("UD-") for kind in kinds], what.upper()),
    ):  # fmt: skip
        if found := [index for index, name in enumerate(names) if name == wanted]:
            return found
    return []


def url_file(folder: Path, url: str) -> Path:
    """Return where in ``folder`` a model from ``url`` is kept. Raises ModelsError if that is no address."""
    try:
        parsed = urlsplit(url)
        name = PurePosixPath(unquote(parsed.path)).name
    except ValueError:
        parsed, name = urlsplit(""), ""
    if parsed.scheme not in ("http", "https") or not parsed.netloc or not name.strip("."):
        raise ModelsError(f"{url}: expected the address of a GGUF file, beginning with http:// or https://")
    return folder / (name if name.lower().endswith(SUFFIX) else f"{name}{SUFFIX}")


def pulled(wanted: Wanted) -> Path | None:
    """Return the model of a hub's repository that is here already; None if it must be fetched.

    Where several are here and none was named, the one that suits this machine.
    """
    snapshots = _hub_cache() / f"models--{wanted.repo.replace('/', '--')}" / "snapshots"
    for top in (wanted.folder, snapshots):
        found = [
            path for path in _files(top)
            if all(path.with_name(name).exists() for name in part_names(path.name))
        ]  # fmt: skip
        if wanted.what:
            found = [
                found[i] for i in matches([path.relative_to(top).as_posix() for path in found], wanted.what)
            ]
        if found:
            return found[suggest([(quantisation(path.name), _size(path)) for path in found])]
    return None
