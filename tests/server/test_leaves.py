"""A dialect, the pages and the line protocol can each be deleted with one line; the rest goes on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import srbwriter
from srbwriter.server.leaves import LEAVES

PACKAGE = Path(srbwriter.__file__).parent
WITHOUT = """
import sys
import httpx
import srbwriter
from tests.fakes.engine import FakeEngine

engine = FakeEngine()
for folder in sys.argv[1:]:  # each has a package named server that one leaf was deleted from
    for name in [name for name in sys.modules if name.partition(".server")[0] == "srbwriter" != name]:
        if name.startswith("srbwriter.server"):
            del sys.modules[name]
    srbwriter.__path__.insert(0, folder)
    import srbwriter.server as server
    from srbwriter.server.leaves import LEAVES

    assert server.__file__.startswith(folder)
    handle = server.start_in_thread(server.Loaded(engine), server.ServerSettings(port=0, access_log=False))
    with httpx.Client(base_url=handle.url, timeout=20) as http:
        for leaf in LEAVES.values():
            plain = [row.paths[0] for row in leaf.rows if row.method == "GET" and "{" not in row.paths[0]]
            for path in plain[:2]:
                assert http.get(path).status_code in (200, 501), (folder, path)
        for path in ("/v1/completions", "/completion", "/generate", "/api/v1/generate"):
            answer = http.post(path, json={"prompt": "Once", "message": "Once", "max_tokens": 2})
            assert answer.status_code in (200, 404, 405), (folder, path, answer.text)
    handle.stop(10)
    print(len(LEAVES))
engine.close()
"""


def delete(name: str, folder: Path) -> Path:
    """A folder with the package of the server, without this leaf and its line."""
    copy = folder / name / "server"
    shutil.copytree(PACKAGE / "server", copy)  # with its compiled modules
    leaf = copy.joinpath(*name.split("."))
    if leaf.is_dir():
        shutil.rmtree(leaf)
    else:
        leaf.with_suffix(".py").unlink()
    table = copy / "leaves.py"
    lines = table.read_text("utf-8").splitlines(keepends=True)
    rest = [line for line in lines if line != f'    "{name}",\n']
    assert len(rest) == len(lines) - 1
    table.write_text("".join(rest), "utf-8")
    return copy.parent


@pytest.mark.full
def test_each_can_be_deleted_with_its_line(tmp_path: Path) -> None:
    """One after the other, in one process that loads the server anew each time."""
    folders = [str(delete(name, tmp_path)) for name in LEAVES]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *folders],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(len(LEAVES) - 1)] * len(LEAVES)
