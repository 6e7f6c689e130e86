"""The pages say what the program does."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from pathlib import Path

import pytest

from srbwriter.cli.commands import COMMANDS
from srbwriter.cli.table import every_key
from srbwriter.config import load
from srbwriter.config.settings import CONFIG_VARIABLE, NO_SETTINGS
from srbwriter.engine import Request
from srbwriter.engine.branch import TRIES
from srbwriter.engine.parameters import DEFAULT_ORDER, SAMPLERS
from srbwriter.engine.sampling import PREFILTER
from srbwriter.tui.commands import MENU
from tools import pages

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
CLI = (ROOT / "docs" / "cli.md").read_text("utf-8")


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_generated_parts_are_made_from_the_programs_tables(page: Path) -> None:
    text = page.read_text("utf-8")
    assert pages.kept(page, text) == text, "run: python -m tools.pages"
    assert text.count("<!-- generated") == text.count("<!-- end of generated -->\n")


def test_every_table_is_in_a_page() -> None:
    text = "".join(page.read_text("utf-8") for page in pages.PAGES)
    assert [name for name in pages.PARTS if f"<!-- generated: {name}," not in text] == []


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


def test_the_page_of_the_library_names_fields_that_requests_have() -> None:
    page = (ROOT / "docs" / "library.md").read_text("utf-8")
    table = page.partition("| Field | Meaning |")[2].partition("\n\n")[0]
    named = {name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"\w+", row)}
    assert named and named - {field.name for field in dataclasses.fields(Request)} == set()


COMPOSED = ("compose.yaml", "compose.vllm.yaml")


def test_the_page_of_the_house_names_what_is_there() -> None:
    """Files by the end of their path, names by their last part."""
    sources = [*(ROOT / "srbwriter").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    words = {word for file in sources for word in re.findall(r"\w+", file.read_text("utf-8"))}
    named = re.findall(r"`@?([A-Za-z_][\w./]*)`", (ROOT / "ARCHITECTURE.md").read_text())
    for name in set(named):
        if name.endswith(".py"):
            assert any(f"/{file.as_posix()}".endswith(f"/{name}") for file in sources), name
        elif "/" not in name:
            assert name.split(".")[-1] in words, name


def test_the_containers_start_the_program_with_options_that_it_has() -> None:
    entry = re.findall(r"^ENTRYPOINT (\[.*)", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    texts = [(ROOT / name).read_text("utf-8").partition("srbwriter:\n")[2] for name in COMPOSED]
    commands = [json.loads(found) for text in texts for found in re.findall(r"command: (\[.*)", text)]
    assert len(commands) == len(COMPOSED)
    known = {flag: key for key in every_key() for flag in key.flags}
    for command in [json.loads(entry[0])[1:], *commands]:
        while command:
            flag = command.pop(0)
            if flag != "--serve":
                assert known[flag].read_text(command.pop(0).partition(":?")[0])


def test_every_command_is_documented() -> None:
    assert all(re.search(rf"srbwriter {name}\b", CLI) for name in COMMANDS)


def anchors(page: Path) -> set[str]:
    """Return the anchors that the site gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)", pages.renewed(page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text("utf-8")):
        other = page.parent / target if target else page
        assert other.exists(), target
        assert not anchor or anchor in anchors(other), f"{target}#{anchor}"


def links(page: Path) -> set[Path]:
    """Return the pages that a page links to."""
    found = re.findall(r"\]\(([\w./-]+\.md)", page.read_text("utf-8"))
    return {(page.parent / target).resolve() for target in found}


def test_every_page_is_within_two_clicks_of_the_index() -> None:
    docs = ROOT / "docs"
    first = links(docs / "index.md")
    assert {docs / name for name in ("better-model.md", "files.md", "sillytavern.md")} <= first
    assert {*docs.glob("*.md")} <= {docs / "index.md"}.union(first, *map(links, first))


SOURCE = "".join(file.read_text("utf-8") for file in (ROOT / "srbwriter").rglob("*.py"))


def test_messages_in_the_page_of_trouble_are_the_programs_own() -> None:
    trouble = (ROOT / "docs" / "trouble.md").read_text("utf-8")
    messages = re.findall(r"^\| `([^`|]+ [^`|]+)`", trouble, re.MULTILINE)
    assert len(messages) > 5
    assert [message for message in messages if message not in SOURCE] == []


FIGURES = {
    "sampling.md": (
        f"gets the {PREFILTER} likeliest tokens",
        f"in this order:\n{', '.join(f'`{name}`' for name in DEFAULT_ORDER)}.",
        f"Names:\n  {', '.join(f'`{name}`' for name in SAMPLERS)}.",
    ),
    "instruments.md": (f"After {TRIES} attempts",),
    "keys.md": (f"`{MENU}` opens the menu",),
    "configuration.md": (f"`{CONFIG_VARIABLE}`", *(f"`{name}`" for name in NO_SETTINGS)),
}


@pytest.mark.parametrize("page", FIGURES)
def test_figures_are_the_programs_own(page: str) -> None:
    text = " ".join((ROOT / "docs" / page).read_text("utf-8").split())
    assert [figure for figure in FIGURES[page] if " ".join(figure.split()) not in text] == []
