"""llama.cpp's programs, as a build leaves them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.llama_programs import BENCH, SERVER, write_program


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.path.stem not in ("test_models", "test_peers"):
        item.add_marker(pytest.mark.full)  # each loads models, again and again


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder that holds llama.cpp's programs, as built."""
    folder = tmp_path / "build" / "bin"
    folder.mkdir(parents=True)
    write_program(folder, "llama-batched-bench", BENCH)
    write_program(folder, "llama-server", SERVER)
    return folder.parent
