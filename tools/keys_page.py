"""The page of keys in the documentation, made from the commands: ``python -m tools.keys_page``."""

from __future__ import annotations

from textual.binding import Binding

import srbwriter.tui.write_screen  # noqa: F401 - loads all screens
from srbwriter.tui.commands import COMMANDS, LEADER, Command, groups, screen_commands
from srbwriter.tui.key_names import shown_name

_INTRO = """\
# Keys

Plain keys act on a branch while the branches have the focus; `tab` moves between the story and the branches.
With the story focused they type, and the same commands are behind the leader `{leader}`: press it, and the
next key acts as if a branch had the focus. Keys in the column *anywhere* work with any focus. `ctrl+p` finds
every command by its name, `F1` shows this list in the program.

Every command can have keys of your own, in the section `[keys]` of `config.toml`. Names are as in this table,
several are separated by commas:

```toml
[keys]
kill = "x, delete"
tree = "ctrl+t"

[interface]
keymap = "vim"        # hjkl move between branches
```

A key of yours takes the place of the usual ones, and of another command's where that had it. One that never
types a character (`ctrl+` and a letter, `f1` to `f12`) works anywhere. Where two commands of one screen have
the same key of yours, or a command is left without any, the program says so when it starts. A name that
no key has is an error, which tells the nearest one.
"""

_OTHERS = """\
## Other screens

They are in `[keys]` by these names, too. `F1` shows those of the screen you are on.
"""


def _spelled(keys: str) -> str:
    return " ".join(f"`{shown_name(key)}`" for key in keys.split(",") if key).replace("|", "\\|")


def _row(command: Command) -> str:
    plain = "`1` … `9`" if command.numbered else _spelled(command.keys)
    vim = _spelled(command.vim)
    words = f"{command.title}. {command.help}"
    columns = (f"`{command.id}`", plain, vim, _spelled(command.anywhere), words)
    return "| " + " | ".join(columns) + " |"


def _words(binding: Binding) -> str:
    return f"{binding.description[:1].upper()}{binding.description[1:]}. {binding.tooltip}".rstrip()


def page() -> str:
    """The page as Markdown."""
    parts = [_INTRO.format(leader=LEADER)]
    for group in groups():
        rows = [_row(command) for command in COMMANDS.values() if command.group == group]
        head = ["| name | key | vim | anywhere | what it does |", "|---|---|---|---|---|"]
        parts.append("\n".join([f"## {group}\n", *head, *rows]) + "\n")
    parts.append(_OTHERS)
    for heading, bindings in screen_commands().items():
        rows = [f"| `{b.id}` | {_spelled(b.key)} | {_words(b)} |" for b in bindings]
        head = [f"### {heading}\n", "| name | key | what it does |", "|---|---|---|"]
        parts.append("\n".join([*head, *rows]) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
