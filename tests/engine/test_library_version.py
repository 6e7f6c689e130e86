"""A llama-cpp-python that was not tested is refused in words, wherever the program is entered."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from srbwriter.engine.native.library import TESTED

WRITE = ["-m", "srbwriter", "write", "Once", "-n", "1", "--max-tokens", "1", "-t", "1"]
MINE = ".".join(map(str, TESTED[1]))


def installed(version: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python where llama-cpp-python says that it is of this version."""
    info = folder / f"llama_cpp_python-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: llama_cpp_python\nVersion: {version}\n")
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )


@pytest.mark.parametrize("version", ["0.3.99"])
def test_another_version_is_refused_with_the_cure(version: str, tmp_path: Path) -> None:
    done = installed(version, tmp_path, *WRITE)
    assert done.returncode == 1
    assert f"llama-cpp-python {version} is installed" in done.stderr and "pip install" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_library_that_cannot_be_loaded_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "llama_cpp").mkdir()
    (tmp_path / "llama_cpp" / "__init__.py").write_text("")
    (tmp_path / "llama_cpp" / "llama_cpp.py").write_text("raise RuntimeError('no shared library')")
    done = installed(MINE, tmp_path, *WRITE)
    assert done.returncode == 1 and "cannot be loaded: no shared library" in done.stderr


def test_what_is_installed_with_the_program_is_tested() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    (wanted,) = [line for line in project["project"]["dependencies"] if line.startswith("llama-cpp-python")]
    assert wanted == f"llama-cpp-python=={MINE}"
