"""The tables of the documentation, made from the program's own.

A table is between two comments, the first of which names it. Those of docs/ are made when the site is built
(:mod:`tools.site_hook`); in the repository a link to the site stands there. ``python -m tools.pages`` puts
the links there and renews the table of README.md. The text around them is written by hand.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from textual.keys import format_key

from srbwriter import formats
from srbwriter.cli.exits import Exit
from srbwriter.cli.flags import default_text, spellings
from srbwriter.cli.table import every_key
from srbwriter.config import Key
from srbwriter.config.keys import SECTIONS
from srbwriter.engine.compat import IGNORED, REFUSED
from srbwriter.engine.parameters import GROUPS, PARAMETERS, Parameter
from srbwriter.engine.types import number_words
from srbwriter.engine.verbs import HTTP_VERBS, Argument, Verb
from srbwriter.models.fit import size_words
from srbwriter.models.recommended import RecommendedModel, read_recommended
from srbwriter.tui.actions import COMMANDS
from srbwriter.tui.commands import Command

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))
SITE = "https://srbwriter.github.io/srbwriter"

_PART = re.compile(
    r"(?P<begin><!-- generated: (?P<name>[a-z-]+)[^\n]*-->\n).*?(?P<end><!-- end of generated -->\n)",
    re.DOTALL,
)


def renewed(text: str) -> str:
    """Return a page with each generated part made again."""
    return _PART.sub(lambda part: f"{part['begin']}\n{PARTS[part['name']]()}\n{part['end']}", text)


def kept(page: Path, text: str) -> str:
    """Return the text of a page as it is kept in the repository."""
    if page == README:
        return renewed(text)
    link = f"*[On the site]({SITE}/{page.stem}/) there is a table here, made from the program's own.*"
    return _PART.sub(lambda part: f"{part['begin']}\n{link}\n\n{part['end']}", text)


def table(head: str, rule: str, rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table: its heading, the line below it, and its rows."""
    return "\n".join([head, rule, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _codes(words: Iterable[str], separator: str = ", ") -> str:
    return separator.join(f"`{word}`" for word in words)


def _sections(parts: Iterable[tuple[str, str]], level: str = "##") -> str:
    return "\n".join(f"{level} {title}\n\n{text}" for title, text in parts)


# ---- settings


def settings() -> str:
    """Every setting by section: key, default, value, meaning, flags, variable."""
    head = "| Key | Default | Value | Meaning | Flags | Variable |"
    return _sections(
        (
            f"`[{section}]` {title}",
            table(head, "|---|---|---|---|---|---|", map(_setting, every_key().section(section))),
        )
        for section, title in SECTIONS.items()
    )


def _setting(key: Key[Any]) -> list[str]:
    cells = (
        f"`{key.name.partition('.')[2]}`",
        f"`{default}`" if (default := default_text(key)) else "",
        key.expected,
        key.help,
        _codes(spellings(key), " "),
        f"`{key.env}`",
    )
    return [cell.replace("|", "\\|") for cell in cells]


def exit_codes() -> str:
    """The exit codes of every command."""
    return table("| Code | Meaning |", "|---|---|", ((str(code.value), code.meaning) for code in Exit))


# ---- parameters


def parameters() -> str:
    """Every parameter by group: default, range, meaning, other names, flags."""
    head = "| Parameter | Default | Range | Meaning | Also called | Flags |"
    return _sections(
        (
            f"{group[0].upper()}{group[1:]}",
            table(head, "|---|---|---|---|---|---|", (_parameter(p) for p in PARAMETERS if p.group == group)),
        )
        for group in GROUPS
    )


def _parameter(p: Parameter) -> tuple[str, ...]:
    return (_codes((p.name,)), _default(p), _range(p), p.help, _codes(p.aliases), _codes(p.flags))


def _default(p: Parameter) -> str:
    if p.default is None or p.default == ():
        return "–"
    if p.choices and not isinstance(p.default, str):
        return f"`{p.default.name.lower()}`"
    if p.kind == "texts":
        return " ".join(f"`{text!r}`" for text in p.default)
    return f"`{str(p.default).lower()}`"


def _range(p: Parameter) -> str:
    if p.choices:
        return _codes(p.choices)
    if p.minimum is None:
        bounds = (f"{p.most} at most" * bool(p.most), f"{p.longest} characters" * bool(p.longest),
                  f"{p.in_all} in all" * bool(p.in_all))  # fmt: skip
        return ", ".join((p.kind, *filter(None, bounds)))
    return f"{number_words(p.minimum)} … {number_words(p.maximum)}".strip()


def retired_parameters() -> str:
    """Parameters of other programs that the engine does not have."""
    rows = [(f"`{name}`", "refused, but for 0, 1 and -1", why) for name, why in REFUSED.items()]
    rows += [(f"`{name}`", "ignored", "") for name in IGNORED]
    return table("| Name | What happens | Why |", "|---|---|---|", rows)


# ---- keys


_TO_KNOW = ("generate", "pick_number", "take", "switch", "undo", "menu", "help", "quit")


def keys_to_know() -> str:
    """The eight keys to know."""
    known = (COMMANDS[name] for name in _TO_KNOW)
    rows = ((_first_key(command), f"{command.title}. {command.help}") for command in known)
    return table("| key | what it does |", "|---|---|", rows)


def _first_key(command: Command) -> str:
    if command.id == "pick_number":
        return "`1` … `9`"
    keys = command.anywhere or command.keys
    return _keys(keys if command.numbered else keys.partition(",")[0])


def keys() -> str:
    """Every command of the writing screen by group, and how it is reached in a plain terminal and in tmux."""
    head = "| name | plain xterm | tmux | what it does |"
    return _sections(
        (
            (
                group,
                table(
                    head,
                    "|---|---|---|---|",
                    (_command(command) for command in COMMANDS.values() if command.group == group),
                ),
            )
            for group in dict.fromkeys(command.group for command in COMMANDS.values())
        ),
        "###",
    )


def _command(command: Command) -> tuple[str, ...]:
    plain = "`1` … `9`" if command.id == "pick_number" else _keys(command.keys)
    reached = " ".join(filter(None, (plain, f"**{_keys(command.anywhere)}**" if command.anywhere else "")))
    tmux = "`ctrl+b` twice" if command.anywhere == TMUX_PREFIX else "same"
    words = f"{command.title}. {command.help}"
    return f"`{command.id}`", reached or "menu", tmux, words


TMUX_PREFIX = "ctrl+b"


def shown_name(key: str) -> str:
    """Return the character that a key types, or else its name, as the section ``[keys]`` takes it."""
    sign = format_key(key)
    return sign if sign in string.punctuation.replace(",", "") else key


def _keys(names: str) -> str:
    return _codes((shown_name(key) for key in names.split(",") if key), " ").replace("|", "\\|")


# ---- models


def models_with_sources() -> str:
    """The recommended models with the page that confirms each fact."""
    found = read_recommended()
    head = "| Model | Kind | Machine | Download | Memory | Context | Licence | `srbwriter models pull …` |"
    rows = (
        (
            model.name,
            model.kind,
            model.machine,
            _size(model.size),
            _size(model.memory),
            f"{model.context:,}" if model.context else "",
            model.licence,
            f"`{model.pull_name}`",
        )
        for model in found.models
    )
    notes = [f"* **{model.name}**: {model.note} {_sources(model)}" for model in found.models]
    text = table(head, "|---|---|---|---:|---:|---:|---|---|", rows)
    return "\n".join([text, f"As of {found.date}. Where each fact was confirmed:", "", *notes]) + "\n"


def _sources(model: RecommendedModel) -> str:
    """Return links to the pages, each with the facts that it confirms."""
    facts: dict[str, list[str]] = {}
    for fact, page in model.pages.items():
        facts.setdefault(page, []).append(fact)
    return "Pages: " + "; ".join(f"[{', '.join(names)}]({page})" for page, names in facts.items()) + "."


def _size(size: int | None) -> str:
    return size_words(size) if size else ""


# ---- formats and HTTP


def file_formats() -> str:
    """Every format of a story, with its extension and directions."""
    rows = [
        (
            form.label,
            f"`{form.name}`",
            f"`{form.extension}`",
            "yes",
            "yes" * (form.write is not None),
        )
        for form in sorted(formats.FORMATS, key=lambda form: form.write is None)
    ]
    rows += [
        (form.label, f"`{form.name}`", form.extension.strip("()"), "yes", "") for form in formats.FOLDERS
    ]
    head = "| Format | Name | Extension | Import | Export |"
    return table(head, "|---|---|---|:-:|:-:|", rows)


def verbs() -> str:
    """What can be done with a branch over HTTP."""
    rows = ((f"`{verb.name}`", verb.help, _fields(verb.arguments), _when(verb)) for verb in HTTP_VERBS)
    return table("| Verb | What it does | Fields | When it has an effect |", "|---|---|---|---|", rows)


_IDS = ("begin", "without")


def _fields(arguments: Iterable[Argument]) -> str:
    names = [argument.field or argument.name for argument in arguments if argument.name not in _IDS]
    settings = {"sampling": "any sampler", "stop": "any stop rule"}
    return ", ".join(settings.get(name) or f"`{name}`" for name in names) or "–"


def _when(verb: Verb) -> str:
    words = {"writing": "writes", "paused": "is paused", "ended": "has ended"}
    return "always" if len(verb.states) == 3 else "while it " + " or ".join(words[s] for s in verb.states)


PARTS: dict[str, Callable[[], str]] = {
    "exit-codes": exit_codes,
    "file-formats": file_formats,
    "keys": keys,
    "keys-to-know": keys_to_know,
    "models-with-sources": models_with_sources,
    "parameters": parameters,
    "retired-parameters": retired_parameters,
    "settings": settings,
    "verbs": verbs,
}


def main() -> None:
    """Write every page whose generated parts are not as they are kept."""
    for page in PAGES:
        text = page.read_text("utf-8")
        if (fresh := kept(page, text)) != text:
            page.write_text(fresh, "utf-8")
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
