"""The pages say what the program does."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from srbwriter.cli.commands import COMMANDS
from srbwriter.cli.exits import Exit
from srbwriter.cli.table import every_key
from srbwriter.config import load
from tools import reference

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
CLI = (ROOT / "docs" / "cli.md").read_text("utf-8")


def test_the_page_of_settings_is_made_from_the_table() -> None:
    fresh = reference.page(every_key())
    assert reference.PAGE.read_text("utf-8") == fresh, "run: python -m tools.reference"
    assert all(key.env in fresh and f"`{key.name.partition('.')[2]}`" in fresh for key in every_key())


def test_the_example_settings_are_taken(tmp_path: Path) -> None:
    about_settings = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "themes.md"]
    pages = [README, *(page.read_text("utf-8") for page in about_settings)]
    examples = [found for page in pages for found in re.findall(r"```toml\n(.*?)```", page, re.S)]
    assert examples
    for number, example in enumerate(examples):
        assert tomllib.loads(example)
        file = tmp_path / f"{number}.toml"
        file.write_text(example, "utf-8")
        load(every_key(), {}, {}, file)


def test_the_library_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.S)
    exec(example, {})
    assert len([line for line in capsys.readouterr().out.splitlines() if line.strip()]) >= 4


def test_the_page_of_the_library_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "library.md").read_text("utf-8")
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.S)), {})
    printed = capsys.readouterr().out
    assert "Done(" in printed and "prompt tokens came from the cache" in printed


@pytest.mark.parametrize("page", [README, CLI], ids=["README", "cli"])
def test_exit_codes_are_documented(page: str) -> None:
    assert all(f"| {code.value} | {code.meaning} |" in page for code in Exit)


def test_the_containers_start_the_program_with_options_that_it_has() -> None:
    text = (ROOT / "compose.yaml").read_text("utf-8")
    [command] = [json.loads(found) for found in re.findall(r"command: (\[.*)", text) if "--serve" in found]
    known = {flag: key for key in every_key() for flag in key.flags}
    while command:
        flag = command.pop(0)
        if flag != "--serve":
            assert known[flag].read_text(command.pop(0).partition(":?")[0])


def test_every_command_is_documented() -> None:
    assert all(f"## `srbwriter {name}`" in CLI for name in COMMANDS)


def test_links_between_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
