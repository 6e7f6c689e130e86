"""The image's server: what its Dockerfile starts, and what it asks whether that is well."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.engine.peers import free_port

DOCKERFILE = (Path(__file__).parent.parent / "Dockerfile").read_text("utf-8")
PATIENCE = 60.0  # seconds


def commands(port: int) -> tuple[list[str], list[str]]:
    """The entry point and the health check, with this environment's programs and a free port."""
    found = [
        re.search(rf"^{word}.*?(\[.*?\])$", DOCKERFILE, re.M | re.S) for word in ("ENTRYPOINT", "HEALTHCHECK")
    ]
    text = [match[1].replace("9090", str(port)) for match in found if match is not None]
    entry, health = (json.loads(line) for line in text)
    return [sys.executable, "-m", "srbwriter", *entry[1:]], [sys.executable, *health[1:]]


@pytest.mark.full
def test_the_image_serves_and_says_that_it_is_well(tmp_path: Path) -> None:
    entry, health = commands(free_port())
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    refused = subprocess.run(entry, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert refused.returncode == 2 and "--api-key" in refused.stderr  # every address needs a key
    server = subprocess.Popen([*entry, "--api-key", "choose-one"], env=environment)
    try:
        end = time.monotonic() + PATIENCE
        while subprocess.run(health, capture_output=True).returncode:
            assert server.poll() is None and time.monotonic() < end
        server.send_signal(signal.SIGTERM)  # what `docker stop` sends
        assert server.wait(PATIENCE) == 0
    finally:
        server.kill()
