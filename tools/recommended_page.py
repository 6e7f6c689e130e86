"""Writes the table of recommended models into README.md and docs/models.md.

``python -m tools.recommended_page``; the table stands between two marks.
"""

from __future__ import annotations

from pathlib import Path

from srbwriter.models import RecommendedModel, read_recommended, size_words

_ROOT = Path(__file__).parent.parent
README, MODELS = _ROOT / "README.md", _ROOT / "docs" / "models.md"
PAGES = (README, MODELS)

_BEGIN = "<!-- Made by `python -m tools.recommended_page` from srbwriter/models/recommended.toml. -->\n"
_END = "<!-- End of the recommended models. -->\n"


def renewed(page: Path, text: str) -> str:
    """``text`` of a page, with a fresh table between the marks."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{_short() if page == README else _long()}\n{_END}{after}"


def _short() -> str:
    rows = ["| Model | Machine | Download | Memory | `srbwriter models pull …` |", "|---|---|---:|---:|---|"]
    for model in read_recommended().models:
        size, memory = _words(model.size), _words(model.memory)
        rows.append(f"| {model.name} | {model.machine} | {size} | {memory} | `{model.pull_name}` |")
    return "\n".join(rows) + "\n"


def _long() -> str:
    found = read_recommended()
    rows = [
        "| Model | Kind | Machine | Download | Memory | Context | Licence | `srbwriter models pull …` |",
        "|---|---|---|---:|---:|---:|---|---|",
    ]
    for model in found.models:
        size, memory = _words(model.size), _words(model.memory)
        context = f"{model.context:,}" if model.context else ""
        cells = (
            model.name,
            model.kind,
            model.machine,
            size,
            memory,
            context,
            model.licence,
            f"`{model.pull_name}`",
        )
        rows.append(f"| {' | '.join(cells)} |")
    notes = [f"* **{model.name}**: {model.note} {_sources(model)}" for model in found.models]
    return "\n".join([*rows, "", f"As of {found.date}. Where each fact was confirmed:", "", *notes]) + "\n"


def _sources(model: RecommendedModel) -> str:
    """Links to the pages, each with the facts that it confirms."""
    facts: dict[str, list[str]] = {}
    for fact, page in model.pages.items():
        facts.setdefault(page, []).append(fact)
    return "Pages: " + "; ".join(f"[{', '.join(names)}]({page})" for page, names in facts.items()) + "."


def _words(size: int | None) -> str:
    return size_words(size) if size else ""


def main() -> None:
    for page in PAGES:
        page.write_text(renewed(page, page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
