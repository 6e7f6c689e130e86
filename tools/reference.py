"""Writes docs/configuration.md from the table of keys: ``python -m tools.reference``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from srbwriter.cli.table import every_key
from srbwriter.config import Key, Table
from srbwriter.config.keys import SECTIONS
from srbwriter.config.kinds import SWITCH
from srbwriter.config.settings import CONFIG_VARIABLE, OF_CLIENTS

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"

_OF_CLIENTS = " and ".join(f"`{name}`" for name in sorted(OF_CLIENTS))
_HEAD = f"""\
# Configuration

<!-- Made by `python -m tools.reference` from the table of keys. Change the table, not this page. -->

Every setting can be given in five places. The nearer one wins:

1. a **flag** on the command line;
2. an **environment variable**, named in the tables below;
3. your own **`config.toml`** in the config folder (`~/.config/srbwriter/` on Linux,
   `~/Library/Application Support/srbwriter/` on macOS), or the file that `--config FILE` or
   `{CONFIG_VARIABLE}` names. It is yours: srbwriter reads it and never writes it;
4. what the program **remembered**, such as a theme chosen in the terminal app. This is the file
   `remembered.toml` in the state folder (`~/.local/state/srbwriter/` on Linux); deleting it forgets;
5. the **default**.

A name that does not exist, or a value that a setting does not take, stops the program with exit code 2, in
the file, in a flag and in a variable alike. Everything that is wrong is said at once, a line each: where (the
file and its line, the flag or the variable), what was expected, and the nearest name. Variables that begin
with `SRBWRITER_` are taken for settings, but for {_OF_CLIENTS}, which programs read
that talk to a server. A relative path in `config.toml` starts at the file's own folder.

```toml
[model]
path = "/home/me/models/novelist.gguf"
ctx_size = 16384

[generation]
n = 6
boundary = "paragraph"

[sampling]
temperature = 0.9
min_p = 0.05
```
"""


def page(table: Table) -> str:
    """The whole page."""
    parts = [_HEAD]
    for section, title in SECTIONS.items():
        rows = [_row(key) for key in table.section(section)]
        parts.append(
            f"## `[{section}]` {title}\n\n"
            "| Key | Default | Value | Meaning | Flags | Variable |\n|---|---|---|---|---|---|\n"
            + "\n".join(rows)
            + "\n"
        )
    return "\n".join(parts)


def _row(key: Key[Any]) -> str:
    cells = (
        f"`{key.name.partition('.')[2]}`",
        "" if key.default is None else f"`{_toml(key.default)}`",
        key.expected,
        key.help,
        " ".join(f"`{flag}`" for flag in _flags(key)),
        f"`{key.env}`",
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _flags(key: Key[Any]) -> list[str]:
    negations = [f"--no-{flag[2:]}" for flag in key.flags if key.kind is SWITCH and flag.startswith("--")]
    return [*key.flags, *negations]


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in cast("tuple[Any, ...]", value)) + "]"
    return json.dumps(value)  # TOML writes texts, numbers and switches as JSON does


if __name__ == "__main__":
    PAGE.write_text(page(every_key()), "utf-8")
