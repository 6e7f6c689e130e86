"""``srbwriter completion``: what makes a shell complete commands, flags, and names of stories and models."""

from __future__ import annotations

import argparse
from collections import Counter

from srbwriter import paths
from srbwriter.cli import app, flags
from srbwriter.cli.columns import plain
from srbwriter.cli.commands import COMMANDS, DEFAULT
from srbwriter.cli.exits import Exit
from srbwriter.config import Settings, Table, keys
from srbwriter.config.kinds import PATH
from srbwriter.tui.options import THEME

SHELLS = ("bash", "zsh", "fish")
NAMES = ("stories", "models", "themes")

_BASH = r"""
_srbwriter_names() {
  srbwriter completion "$1" 2>/dev/null | while IFS= read -r name; do
    printf -v name %q "$name"
    [[ $name == "$2"* ]] && printf '%s\n' "$name"
  done
}
_shtab_srbwriter_pos_0_COMPGEN=_srbwriter_stories
"""
_BASH_OF_NAMES = """_srbwriter_%s() { _srbwriter_names %s "$1"; }\n"""
_ZSH_OF_NAMES = """\
_srbwriter_%s() {
  local -a names; names=("${(@f)$(srbwriter completion %s 2>/dev/null)}"); compadd -a names; _files
}
"""


def completion_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    words = f"one of {', '.join(SHELLS)}; or {', '.join(NAMES)}, which prints the names that are completed"
    parser.add_argument("what", metavar="SHELL", choices=(*SHELLS, *NAMES), help=words)


def run_completion(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Print a script that makes a shell complete commands, flags, titles of stories, models and themes.

      srbwriter completion bash > ~/.local/share/bash-completion/completions/srbwriter
      srbwriter completion zsh > ~/.zfunc/_srbwriter      with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
      srbwriter completion fish > ~/.config/fish/completions/srbwriter.fish
    """
    what = arguments.what
    print("\n".join(map(plain, _names(what))) if what in NAMES else _script(what))
    return Exit.OK


def _names(kind: str) -> list[str]:
    """Return the names of one kind in the order of their list."""
    if kind == "stories":
        from srbwriter.story import library

        known = library.stories(paths.library_dir())
        counts = Counter(story.title.casefold() for story in known)  # of one title the files
        return [s.title if counts[s.title.casefold()] == 1 else str(s.path) for s in known]
    if kind == "models":
        from srbwriter.models.local import local_models

        return [model.name for model in local_models()]
    return theme_names()


def theme_names() -> list[str]:
    """Return the names of the themes that come along and of the writer's own."""
    folders = (paths.asset_dir("themes"), paths.config_dir() / "themes")
    return sorted({file.stem for folder in folders for file in folder.glob("*.toml")})


def _script(shell: str) -> str:
    import shtab

    from srbwriter.cli.table import every_key

    table = every_key()
    whole = flags.Parser("srbwriter", DEFAULT.description)
    group = whole.add_subparsers(metavar="COMMAND", parser_class=flags.Parser)
    app.add_flags(whole, table)
    for command in COMMANDS.values():
        part = group.add_parser(command.name, help=command.summary, description=command.description)
        command.configure(part, table)
    kinds = {"STORY": "stories", "MODEL": "models", keys.MODEL.name: "models", THEME.name: "themes"}
    by_name = {key.name: key for key in table}
    for action in whole.every_argument():
        key = by_name.get(action.dest)
        if kind := kinds.get(key.name if key else str(action.metavar)):
            complete = {"bash": f"_srbwriter_{kind}", "zsh": f"_srbwriter_{kind}"}
            complete["fish"] = f"(srbwriter completion {kind}; __fish_complete_path (commandline -ct))"
            setattr(action, "complete", complete)  # noqa: B010 — an attribute that shtab looks for
        elif (key and key.kind is PATH) or action.metavar in ("FILE", "COPY"):
            setattr(action, "complete", shtab.FILE)  # noqa: B010
        elif key and key.kind.choices:
            action.choices = key.kind.choices
    preamble = {
        "bash": _BASH + "".join(_BASH_OF_NAMES % (kind, kind) for kind in NAMES),
        "zsh": "".join(_ZSH_OF_NAMES % (kind, kind) for kind in NAMES),
    }
    return shtab.complete(whole, shell, preamble=preamble.get(shell, ""))
