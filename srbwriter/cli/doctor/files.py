"""Checks of files: settings, free space, folders, models, stories. They write nothing."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import launch, paths
from srbwriter.cli.doctor.findings import Check, Examination, Finding, NoNative, nearest_folder, pip, shown
from srbwriter.config import ConfigError, keys
from srbwriter.demo import bundled_model
from srbwriter.engine.devices import device_words
from srbwriter.engine.types import ModelError
from srbwriter.models import LocalModel, local_models, look_at, memory, memory_budget, parts_of, size_words
from srbwriter.models.fit import free_memory
from srbwriter.models.placement import HOST_SHARE

if TYPE_CHECKING:
    from srbwriter.story.check import Report

STORIES_SECONDS = 60
"""Time after which no further story is checked."""

LEAST_SPACE = 100_000_000
"""Free bytes needed to save stories, copies and settings safely."""


def check_settings(examination: Examination) -> Iterator[Finding]:
    """Report invalid settings and variables; the other checks then use the defaults."""
    for words in examination.settings.warnings:
        yield Finding("care", words, _settings_cure(words))
    if not examination.settings.warnings:
        file = paths.config_file()
        yield Finding(
            "ok", f"{shown(file)}{'' if file.exists() else ' does not exist, so the defaults hold'}"
        )


def _settings_cure(words: str) -> str:
    if (found := re.search(r"\bSRBWRITER_[A-Z_]+", words)) and "=" not in words[: found.start()]:
        return f"unset {found.group()}"
    if words.startswith(str(paths.overlay_file())):
        return f"rm {shown(paths.overlay_file())}"
    return f"${{EDITOR:-nano}} {shown(paths.config_file())}"


# ---- space and folders


def _folders() -> dict[str, Path]:
    """Return the folders that the program writes to, by their content."""
    return {
        "stories": paths.library_dir(), "models": paths.models_dir(),
        "copies, logs and locks": paths.state_dir(), "cached model states": paths.cache_dir(),
    }  # fmt: skip


def check_space(_: Examination) -> Iterator[Finding]:
    """Report the free space on each disk that the program writes to."""
    disks = dict[int, tuple[Path, list[str]]]()
    for what, folder in _folders().items():
        nearest = nearest_folder(folder)
        disks.setdefault(nearest.stat().st_dev, (nearest, []))[1].append(what)
    for folder, what in disks.values():
        usage, inodes = shutil.disk_usage(folder), os.statvfs(folder)
        words = f"{size_words(usage.free)} of {size_words(usage.total)} free"
        words = f"{shown(folder)} ({', '.join(what)}): {words}"
        if usage.free < LEAST_SPACE:
            yield Finding("care", f"{words}: too little to save safely", _space_cure(folder))
        elif inodes.f_files and not inodes.f_favail:
            yield Finding(
                "care", f"no file can be made in {shown(folder)}: too many there", _space_cure(folder)
            )
        else:
            yield Finding("ok", words)


def _space_cure(folder: Path) -> str:
    """Return a command that frees space: delete the cache, or list the largest folders."""
    cache = paths.cache_dir()
    if cache.is_dir() and cache.stat().st_dev == folder.stat().st_dev and any(cache.iterdir()):
        return f"rm -r {shown(cache)}"
    return f"du -xhd 1 {shown(folder)} | sort -h | tail"


def check_folders(_: Examination) -> Iterator[Finding]:
    """Check that the program can write to its folders and that no other user can read them."""
    wrong = 0
    for what, folder in (*_folders().items(), ("settings", paths.config_dir())):
        for finding in _folder(what, folder, writes=what != "settings"):
            wrong += 1
            yield finding
    if not wrong:
        places = ", ".join(f"{what} in {shown(folder)}" for what, folder in _folders().items())
        yield Finding("ok", f"can be written: {places}")


def _folder(what: str, folder: Path, *, writes: bool) -> Iterator[Finding]:
    place = nearest_folder(folder)
    if not place.is_dir():
        words = f"{shown(place)} is a file, but the folder for {what} belongs there"
        yield Finding("care", words, f"mv {shown(place)} {shown(place.with_name(place.name + '.old'))}")
        return
    if not writes and place != folder:
        return
    status = place.stat()
    needed, access = (0o700, os.R_OK | os.W_OK | os.X_OK) if writes else (0o500, os.R_OK | os.X_OK)
    mine = status.st_uid == os.geteuid()
    if mine and status.st_mode & needed != needed:
        verb = "written" if writes else "read"
        words = f"{shown(place)} cannot be {verb} by its owner ({what})"
        yield Finding("care", words, f"chmod u+{'rwx' if writes else 'rx'} {shown(place)}")
    elif not os.access(place, access):
        if os.statvfs(place).f_flag & os.ST_RDONLY:
            words = f"{shown(place)} is on a read-only disk ({what})"
            yield Finding("care", words, f"sudo mount -o remount,rw {shown(_mount_of(place))}")
        else:
            words = f"{shown(place)} belongs to another user and cannot be written ({what})"
            yield Finding("care", words, f'sudo chown -R "$(id -un)" {shown(place)}')
    if writes and place == folder and what != "models" and status.st_mode & 0o007 and not folder.is_symlink():
        yield Finding("care", f"other users can read {shown(folder)} ({what})", f"chmod 700 {shown(folder)}")


def _mount_of(folder: Path) -> Path:
    return next(above for above in (folder, *folder.parents) if above.is_mount())


# ---- models


def check_models(examination: Examination) -> Iterator[Finding]:
    """Report the model in use, where it runs and whether it fits; then the other local models."""
    found = local_models()
    in_use = yield from _in_use(examination, found)
    there, budget = memory(), memory_budget()
    for model in found:
        if in_use is not None and model.path.resolve() == in_use.resolve():
            continue
        if model.problem:
            ours = model.place in ("bundled", "models folder")
            yield Finding(
                "care" if ours else "note", f"{shown(model.path)}: {model.problem}", _damaged(model)
            )
            continue
        verdict = launch.model_need(examination.settings, model.header, model.size).verdict(there, budget)
        words = {"fits": "fits the memory", "tight": "hardly fits the memory"}.get(verdict, "is too large")
        yield Finding("ok", f"{model.name} ({size_words(model.size)}) {words}")


_BUNDLED_AGAIN = "{} install --force-reinstall --no-deps srbwriter"


def _damaged(model: LocalModel) -> str:
    return _BUNDLED_AGAIN.format(pip()) if model.place == "bundled" else f"rm {shown(model.path)}"


def _in_use(
    examination: Examination, found: list[LocalModel]
) -> Generator[Finding, None, Path | None]:  # fmt: skip
    """Yield the findings about the model in use; return its file, if there is one."""
    settings = examination.settings
    if launch.elsewhere(settings):
        yield Finding("ok", f"the model runs elsewhere: {settings[keys.CONNECT]}")
        return None
    try:
        if (error := launch.missing_model(settings)) is not None:
            raise error
        path = launch.model_path(settings)
    except (ModelError, ConfigError) as error:
        yield Finding("care", str(error), _other_model(examination, error))
        return None
    if not path.exists():
        yield Finding("care", f"the bundled model is missing: {shown(path)}", _BUNDLED_AGAIN.format(pip()))
        return path
    try:
        devices = examination.native.devices
    except NoNative:  # reported by another check
        devices = []
    options = launch.engine_options(settings)
    placement = launch.placement_of(path, options, devices)
    if placement is None:
        model = look_at(path)
        cure = _damaged(model) if path != bundled_model() else _BUNDLED_AGAIN.format(pip())
        yield Finding("care", f"in use is {shown(path)}: {model.problem}", cure)
        return path
    where = device_words(devices, placement.gpu_layers, placement.layers - 1)
    window = placement.window
    yield Finding(
        "ok", f"in use is {parts_of(path.name).stem}: it runs on {where}, with a context of {window} tokens"
    )
    cure = (
        ""
        if placement.fits
        else f"srbwriter models use {shlex.quote(_largest_that_fits(examination, found))}"
    )
    for note in placement.notes:
        yield Finding("note" if placement.fits else "care", note, cure)
    return path


def _largest_that_fits(examination: Examination, found: list[LocalModel]) -> str:
    """Return the name of the largest local model that fits into free memory; else the bundled one."""
    free = free_memory()
    fitting = [
        model
        for model in found
        if model.header
        and launch.model_need(examination.settings, model.header, model.size).total <= free * HOST_SHARE
    ]
    return max(fitting, key=lambda model: model.size).name if fitting else bundled_model().stem


def _other_model(examination: Examination, error: Exception) -> str:
    """Return a command that makes the program find a model again, if the configured one is missing."""
    settings = examination.settings
    key = launch.model_key(settings) if isinstance(error, ModelError) else keys.MODEL
    if key in launch.REMOTE_KEYS:
        return (
            f"srbwriter models pull {shlex.quote(str(settings[key]))}"
            if key is keys.HF_REPO
            else "srbwriter models"
        )
    match settings.source(key or keys.MODEL):
        case "remembered":
            return "srbwriter models forget"
        case "environment":
            return f"unset {keys.MODEL.env}"
        case "file":
            return f"${{EDITOR:-nano}} {shown(paths.config_file())}"
        case _:
            return "srbwriter models"


# ---- stories


def check_stories(_: Examination) -> Iterator[Finding]:
    """Check every page and checksum of the stories in the library and of recently opened ones."""
    from srbwriter.cli.stories import recents
    from srbwriter.story import StoryError
    from srbwriter.story.check import check
    from srbwriter.story.store import SUFFIX

    folder = paths.library_dir()
    found = {path.resolve(): path for path in sorted(folder.glob(f"*{SUFFIX}"))}
    for recent in recents().all():
        found.setdefault(recent.path.resolve(), recent.path)
    sound, deadline = 0, time.monotonic() + STORIES_SECONDS
    for number, path in enumerate(found.values()):
        if time.monotonic() > deadline:
            yield Finding(
                "note", f"left out for lack of time: {len(found) - number} of {len(found)}", "srbwriter check"
            )
            break
        try:
            report = check(path)
        except StoryError as error:
            yield Finding("care", str(error), _story_cure(path))
            continue
        if report.sound:
            sound += 1
        else:
            yield Finding("care", f"{shown(path)} is damaged: {_damage(report)}", _story_cure(path))
    noun = "story is" if sound == 1 else "stories are"
    yield Finding("ok", f"{sound} {noun} sound" if found else "there is no story yet")


def _damage(report: Report) -> str:
    return str(report.damage) if report.damage is not None else "; ".join(report.problems)


def _story_cure(path: Path) -> str:
    """Return a command that restores the newest copy, or opens the readable rest."""
    from srbwriter.story import Story, StoryError
    from srbwriter.story.backup import backups

    if not os.access(path, os.R_OK):
        return f"chmod u+rw {shown(path)}"
    with contextlib.suppress(StoryError, OSError), Story.open(path, readonly=True) as story:
        if backups(story.backup_folder(paths.backup_dir())):
            return f"srbwriter backup restore {shown(path)}"
    return f"srbwriter open {shown(path)}"


CHECKS: Sequence[tuple[str, Check]] = (
    ("settings", check_settings),
    ("space", check_space),
    ("folders", check_folders),
    ("models", check_models),
    ("stories", check_stories),
)
