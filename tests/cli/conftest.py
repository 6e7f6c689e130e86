"""The command line, run in this process."""

from __future__ import annotations

from typing import Any

import pytest

from srbwriter import cli


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Any:
    def run_main(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(arguments)
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run_main
