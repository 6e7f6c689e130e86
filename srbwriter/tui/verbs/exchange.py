"""Commands that take the story out into a file, or a file into a story."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import paths
from srbwriter.story import StoryError, formats, library, transfer
from srbwriter.story.transfer import Landed
from srbwriter.tui.screens.ask import Ask
from srbwriter.tui.verbs import verb

if TYPE_CHECKING:
    from srbwriter.story.formats import Format
    from srbwriter.tui.screens.desk import Desk


@verb
def export(desk: Desk) -> None:
    _ask_target(desk, f"{library.file_name(desk.session.title)}.md")


def _ask_target(desk: Desk, suggested: str) -> None:
    labels: dict[str, str] = {}
    for form in formats.writable():
        labels.setdefault(form.extension, form.label)
    known = ", ".join(f"{extension} {label}" for extension, label in labels.items())

    def answered(name: str | None) -> None:
        if name and name.strip():
            desk.guarded(lambda: _check(desk, name))

    question = f"Export to which file in {Path.cwd()}? Its ending says how: {known}"
    desk.bench.push_screen(Ask(question, suggested, select=True), answered)


def _check(desk: Desk, name: str) -> None:
    """Ask again for a name that cannot be used, and for leave to replace a file."""
    target = _path(name)
    form = formats.for_file(target)
    try:
        if form is None:
            raise StoryError(formats.no_extension(target))
        transfer.check_target(target, force=True)
    except StoryError as error:
        desk.say(str(error), error=True)
        _ask_target(desk, name)
        return

    def answered(word: str | None) -> None:
        if word is not None and word.strip().casefold() == "yes":
            desk.guarded(lambda: _export(desk, target, form, force=True))
        else:
            desk.say(f"{target} stays as it is.")

    if target.exists():
        question = f"{target} is there already. Type yes to replace it; anything else leaves it as it is."
        desk.bench.push_screen(Ask(question), answered)
    else:
        _export(desk, target, form, force=False)


def _export(desk: Desk, target: Path, form: Format, *, force: bool) -> None:
    desk.session.keep()
    story = desk.session.story
    work = transfer.Export(story.file, target, form.name, force)
    desk.exchange.begin("export", target.name, work, lambda landed: desk.say(f"Exported to {landed.path}."))


@verb
def import_(desk: Desk) -> None:
    def answered(name: str | None) -> None:
        if name and name.strip():
            desk.guarded(lambda: _import(desk, _path(name)))

    question = f"Import which file in {Path.cwd()}? Its format is found out; it becomes a story of its own."
    desk.bench.push_screen(Ask(question), answered)


def _import(desk: Desk, file: Path) -> None:
    def opened(landed: Landed) -> None:
        desk.bench.open_story(landed.path, (f"{file} became {landed.path}.", *landed.notices))

    work = transfer.Import(file, paths.library_dir())
    desk.exchange.begin("import", file.name, work, opened, leaves=True)


def _path(name: str) -> Path:
    """A path as people write it, with ~ for the home folder, or as a terminal pastes it, in quotes."""
    name = name.strip()
    if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'":
        name = name[1:-1]
    return (Path.cwd() / Path(name).expanduser()).absolute()
