"""The models of this machine: the bundled one, the models folder, and the caches of other programs.

Headers are read only for a list; finding a model by its name reads no file. An added file is copied or
linked, completely or not at all.
"""

from __future__ import annotations

import contextlib
import filecmp
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from srbwriter import paths
from srbwriter.demo import bundled_model
from srbwriter.models.files import (
    SUFFIX,
    BadModelFile,
    Header,
    ModelsError,
    NoSuchModel,
    hub_folder,
    is_model,
    part_names,
    parts_of,
    put_in_place,
    quantisation,
    read_header,
)
from srbwriter.models.fit import Wanted, matches, memory_budget, suggest

Place = Literal["bundled", "models folder", "Hugging Face", "LM Studio"]


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A model found on this machine, by name alone. ``path`` is its first file."""

    place: Place
    path: Path

    @property
    def name(self) -> str:
        """What the model is called: its file's name, less the suffix and the numbers of parts."""
        return parts_of(self.path.name).stem


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


def folders() -> dict[Place, list[Path]]:
    """Where models of this machine lie, whether the folders exist or not."""
    home = paths.expanded("~")
    return {
        "models folder": [paths.models_dir()],
        "Hugging Face": [_hub_cache(home)],
        "LM Studio": [home / ".lmstudio" / "models", home / ".cache" / "lm-studio" / "models"],
    }


def _hub_cache(home: Path) -> Path:
    """As ``huggingface_hub.constants`` has it."""
    if named := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return paths.expanded(named)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return paths.expanded(os.environ.get("HF_HOME") or cache / "huggingface") / "hub"


def local_files() -> Iterator[LocalFile]:
    """Every model of this machine, the nearest place first; the same file is given once."""
    yield LocalFile("bundled", bundled_model())
    seen: set[Path] = set()
    for place, tops in folders().items():
        for path in sorted(path for top in tops for path in _files(top)):
            real = path.resolve()
            if real not in seen:
                seen.add(real)
                yield LocalFile(place, path)


def _files(top: Path) -> Iterator[Path]:
    """First files of the models below ``top``; folders that cannot be read are passed over."""
    walked: set[str] = set()
    for folder, below, names in os.walk(top, followlinks=True):
        real = os.path.realpath(folder)
        if real in walked:  # a link that leads back up
            below.clear()
            continue
        walked.add(real)
        below[:] = sorted(name for name in below if not name.startswith(".") and name != "blobs")
        for name in names:
            if is_model(name) and not name.startswith(".") and parts_of(name).number == 1:
                yield Path(folder, name)


def local_models() -> list[LocalModel]:
    """Return every model of this machine with its header; files that are only a part of one are left out."""
    found = [look(model) for model in local_files()]
    return [model for model in found if model.problem or (model.header and model.header.kind == "model")]


def look_at(path: Path) -> LocalModel:
    """Describe the model in a named file, without loading it."""
    return look(LocalFile("models folder", path))


def look(model: LocalFile) -> LocalModel:
    """What a model is, without loading it."""
    size, problem, header = 0, "", None
    try:
        size = _size(model.path)
        header = read_header(model.path)
    except BadModelFile as error:
        problem = error.problem
    return LocalModel(
        model.place, model.path, model.name, size, quantisation(model.path.name), header, problem
    )


def _size(path: Path) -> int:
    """Bytes of all files of a model. Raises BadModelFile if one is missing."""
    total = 0
    for name in part_names(path.name):
        try:
            total += path.with_name(name).stat().st_size
        except OSError as error:
            raise BadModelFile(path, f"{name} is missing ({error.strerror})") from error
    return total


def find(name: str) -> Path:
    """The model called ``name``: with or without suffix, or a path within its place.

    Raises NoSuchModel, which names all that share the name.
    """
    matching = [model for model in local_files() if name in _names(model)]
    if not matching:
        raise NoSuchModel(f"no model is called {name} — `srbwriter models` lists those there are")
    nearest = [model for model in matching if model.place == matching[0].place]
    if len(nearest) > 1:
        listed = ", ".join(str(model.path) for model in nearest)
        raise NoSuchModel(f"several models are called {name}: {listed} — give the path")
    return nearest[0].path


def _names(model: LocalFile) -> set[str]:
    names = {model.name, model.path.name, str(model.path)}
    for top in folders().get(model.place, []):
        if model.path.is_relative_to(top):
            names.add(str(model.path.relative_to(top)))
    return names


def pulled(wanted: Wanted) -> Path | None:
    """The model of a hub's repository that is here already; None if it must be fetched.

    Where several are here and none was named, the one that suits this machine.
    """
    for top in (hub_folder(paths.models_dir(), wanted.repo), _snapshots(wanted.repo)):
        found = [path for path in sorted(_files(top)) if _is_whole(path)]
        if wanted.what:
            names = [path.relative_to(top).as_posix() for path in found]
            found = [found[i] for i in matches(names, wanted.what)]
        if found:
            sizes = [(quantisation(path.name), _size(path)) for path in found]
            return found[suggest(sizes, lambda size: size <= memory_budget())]
    return None


def _snapshots(repo: str) -> Path:
    return _hub_cache(paths.expanded("~")) / f"models--{repo.replace('/', '--')}" / "snapshots"


def _is_whole(path: Path) -> bool:
    return all(path.with_name(name).exists() for name in part_names(path.name))


# ---- adding


def add(file: Path, *, link: bool = False) -> Path:
    """Put the model at ``file``, with all its parts, into the models folder; returns the first file there.

    Args:
        file: any file of the model.
        link: leave the file where it is and link to it.

    Raises:
        BadModelFile: the file is no model, or a part of it is missing.
        ModelsError: another file of that name is there already, or there is no room.
    """
    sources = [file.with_name(name) for name in part_names(file.name)]
    for source in sources:
        if source.is_dir():
            raise BadModelFile(source, "this is a folder", "name the .gguf file in it")
        if not source.is_file():
            raise BadModelFile(source, "no such file", "check the path")
    read_header(sources[0])
    folder = paths.models_dir()
    targets = [folder / source.name for source in sources]
    if not targets[0].name.lower().endswith(SUFFIX):
        targets = [folder / f"{file.name}{SUFFIX}"]
    for source, target in zip(sources, targets, strict=True):
        _refuse_taken(source, target)
    paths.make_folder(folder)
    for source, target in zip(sources, targets, strict=True):
        if not target.exists():
            _put(source.resolve(), target, link)
    return targets[0]


def _refuse_taken(source: Path, target: Path) -> None:
    if os.path.lexists(target) and not (target.exists() and filecmp.cmp(source, target, shallow=False)):
        raise ModelsError(f"{target}: there is another file of this name — remove it, or rename {source}")


def _put(source: Path, target: Path, link: bool) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if link:
            target.symlink_to(source)
            return
        shutil.copyfile(source, temporary)
        put_in_place(temporary, target)
    except OSError as error:
        raise ModelsError(
            f"{target}: {error.strerror or error} — make room, or leave the file where it is with --link"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
