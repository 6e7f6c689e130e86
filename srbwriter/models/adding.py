"""Putting a model file into the models folder: copied or linked, whole or not at all."""

from __future__ import annotations

import contextlib
import filecmp
import os
import shutil
from pathlib import Path

from srbwriter import paths
from srbwriter.models.errors import BadModelFile, ModelsError
from srbwriter.models.header import read_header
from srbwriter.models.names import SUFFIX, part_names
from srbwriter.models.placing import place


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
        if not source.is_file():
            raise BadModelFile(source, "no such file", "check the path")
    read_header(sources[0])
    folder = paths.models_dir()
    targets = [folder / source.name for source in sources]
    if not targets[0].name.lower().endswith(SUFFIX):
        targets = [folder / f"{file.name}{SUFFIX}"]
    for source, target in zip(sources, targets, strict=True):
        _refuse_taken(source, target)
    folder.mkdir(parents=True, exist_ok=True)
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
        place(temporary, target)
    except OSError as error:
        raise ModelsError(
            f"{target}: {error.strerror or error} — make room, or leave the file where it is with --link"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
