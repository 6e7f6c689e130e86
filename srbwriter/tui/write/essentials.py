"""The eight keys to know: on the key line, at the top of help and of the documentation of keys."""

from __future__ import annotations

from dataclasses import dataclass

from srbwriter.tui.commands import Keys, key_name

_ROOMY = 100  # from so many columns on, the key line uses longer labels


@dataclass(frozen=True, slots=True)
class Essential:
    """One of the eight: what it is called, what it does, and its commands."""

    label: str
    help: str
    commands: tuple[str, ...]


ESSENTIALS = (
    Essential("write", "Branches continue the story from its end.", ("generate",)),
    Essential("pick", "The branch joins the story, and new branches continue from there.", ("pick_number",)),
    Essential(
        "pick a part",
        "On a chosen branch: mark a sentence, a word or a paragraph more. Enter picks the marked part.",
        ("take",),
    ),
    Essential(
        "choose a branch",
        "Plain keys act on the chosen branch, which has a bright frame. The last of these keys also leads "
        "back to the story.",
        ("go", "switch"),
    ),
    Essential("undo", "The last change to the story: a pick or your own words.", ("undo",)),
    Essential("menu", "All commands: type a word, enter runs the one that is highlighted.", ("menu",)),
    Essential("help", "All keys.", ("help",)),
    Essential("quit", "Every word is saved.", ("quit",)),
)


def first_key(keys: Keys, command: str) -> str:
    """Return the key of a command that is shown, if possible one that works with any focus; "" if none."""
    if command == "pick_number":
        return "1–9"
    found = [*map(key_name, [*keys.anywhere[command], *keys.plain[command]])]
    if command == "take":
        return " ".join(found[:3])
    return "".join(found[:2] if command == "go" else found[:1])


def key_line_entries(
    keys: Keys, width: int, *, on_branch: bool, unchosen: bool, stops: bool
) -> list[tuple[str, str, str]]:
    """Return command id, key and label of the entries of the key line, for ``width`` cells.

    Args:
        keys: the meaning of keys.
        width: cells of the line.
        on_branch: whether a branch is chosen.
        unchosen: whether branches are visible and none is chosen: digits pick, and other typing is text.
        stops: whether "step back" would stop something.
    """
    roomy = width >= _ROOMY

    def entry(command: str, label: str) -> tuple[str, str, str]:
        return command, first_key(keys, command), label

    entries: list[tuple[str, str, str]] = []
    if on_branch:
        part = "pick a part" if roomy else "part"
        entries += [
            entry("pick_number", "pick"),
            entry("take", part),
            entry("switch", "story"),
        ]
    elif unchosen:
        entries += [
            entry("pick_number", "pick"),
            ("", "type", "to write" if roomy else "text"),
            entry("go", "choose a branch" if roomy else "choose"),
        ]
    else:
        entries.append(entry("switch", "branches"))
    entries.append(entry("generate", "write"))
    if stops:
        entries.append(entry("back", "stop"))
    entries += [entry(command, command) for command in ("undo", "menu", "help", "quit")]
    if on_branch:
        entries += [entry("reroll", "re-roll"), entry("kill", "kill")]
    return [one for one in entries if one[1]]
