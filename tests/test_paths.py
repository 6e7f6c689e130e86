"""Folders follow the environment; assets are found; a replaced file is whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import srbwriter
from srbwriter import paths


def test_every_folder_lies_in_the_home_of_whoever_asks(home: Path) -> None:
    folders = [
        paths.config_dir(),
        paths.data_dir(),
        paths.state_dir(),
        paths.cache_dir(),
        paths.log_dir(),
        paths.library_dir(),
        paths.models_dir(),
    ]
    assert all(home in folder.parents for folder in folders)
    assert len(set(folders)) == len(folders)
    assert not any(home.iterdir()), "asking for a path creates nothing"


@pytest.mark.parametrize("name", ["themes", "sample_prompts"])
def test_assets_are_found_in_a_checkout(name: str) -> None:
    assert any(paths.asset_dir(name).iterdir())


def test_assets_are_found_inside_an_installed_package(tmp_path: Path) -> None:
    package = tmp_path / "srbwriter"
    package.mkdir()
    for module in ("__init__.py", "paths.py", "version.py"):
        shutil.copy(Path(srbwriter.__file__).parent / module, package)
    (package / "themes").mkdir()
    code = "from srbwriter import paths; print(paths.asset_dir('themes'))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(package / "themes")


def test_a_missing_asset_says_what_to_do() -> None:
    with pytest.raises(FileNotFoundError, match="install srbwriter again"):
        paths.asset_dir("no-such-folder")


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "new" / "file"
    paths.write_atomic(file, b"old")
    paths.write_atomic(file, b"new")
    assert file.read_bytes() == b"new"
    assert os.listdir(file.parent) == ["file"]


def test_a_failed_replacement_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    paths.write_atomic(file, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        paths.write_atomic(file, b"new")
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_what_the_program_writes_for_itself_is_its_owners_alone(home: Path) -> None:
    before = os.umask(0)
    try:
        paths.write_atomic(paths.config_dir() / "themes" / "mine.toml", b"")
    finally:
        os.umask(before)
    made = [paths.config_dir(), paths.config_dir() / "themes", paths.config_dir() / "themes" / "mine.toml"]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700, 0o700, 0o600]


def test_a_folder_that_is_there_keeps_its_mode(home: Path) -> None:
    (home / "shared").mkdir()
    (home / "shared").chmod(0o770)
    paths.make_folder(home / "shared" / "own")
    assert (home / "shared").stat().st_mode & 0o777 == 0o770
    (home / "file").touch()
    with pytest.raises(FileExistsError):
        paths.make_folder(home / "file")
