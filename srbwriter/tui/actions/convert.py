"""Commands that take the story out into a file, or a file into a story."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import paths
from srbwriter.story import StoryError, library
from srbwriter.tui.actions import verb
from srbwriter.tui.screens.ask import Ask

if TYPE_CHECKING:
    from srbwriter.story.formats import Format
    from srbwriter.story.transfer import Landed
    from srbwriter.tui.write_screen import WriteScreen


@verb
def export(screen: WriteScreen) -> None:
    _ask_target(screen, f"{library.file_name(screen.session.title)}.md")


def _ask_target(screen: WriteScreen, suggested: str) -> None:
    from srbwriter.story import formats  # all of them: the first screen does not wait for that

    labels: dict[str, str] = {}
    for form in formats.writable():
        labels.setdefault(form.extension, form.label)
    known = ", ".join(f"{extension} {label}" for extension, label in labels.items())

    def answered(name: str | None) -> None:
        if name and name.strip():
            screen.guarded(lambda: _check(screen, name))

    question = f"Export to which file in {Path.cwd()}? Its ending says how: {known}"
    screen.app.push_screen(Ask(question, suggested, select=True), answered)


def _check(screen: WriteScreen, name: str) -> None:
    """Ask again for a name that cannot be used, and for leave to replace a file."""
    from srbwriter.story import formats, transfer

    target = _path(name)
    form = formats.for_file(target)
    try:
        if form is None:
            raise StoryError(formats.no_extension(target))
        transfer.check_target(target, force=True)
    except StoryError as error:
        screen.notify(str(error), severity="error")
        _ask_target(screen, name)
        return

    def answered(word: str | None) -> None:
        if word is not None and word.strip().casefold() == "yes":
            screen.guarded(lambda: _export(screen, target, form, force=True))
        else:
            screen.notify(f"{target} stays as it is.")

    if target.exists():
        question = f"{target} is there already. Type yes to replace it; anything else leaves it as it is."
        screen.app.push_screen(Ask(question), answered)
    else:
        _export(screen, target, form, force=False)


def _export(screen: WriteScreen, target: Path, form: Format, *, force: bool) -> None:
    from srbwriter.story import transfer

    screen.session.keep()
    story = screen.session.story
    work = transfer.Export(story.file, target, form.name, force)

    def ended(landed: Landed) -> None:
        screen.notify(f"Exported to {landed.path}.")

    screen.transfers.begin("export", target.name, work, ended)


@verb
def import_(screen: WriteScreen) -> None:
    def answered(name: str | None) -> None:
        if name and name.strip():
            screen.guarded(lambda: _import(screen, _path(name)))

    question = f"Import which file in {Path.cwd()}? Its format is found out; it becomes a story of its own."
    screen.app.push_screen(Ask(question), answered)


def _import(screen: WriteScreen, file: Path) -> None:
    from srbwriter.story import transfer

    def opened(landed: Landed) -> None:
        screen.app.open_story(landed.path, (f"{file} became {landed.path}.", *landed.notices))

    work = transfer.Import(file, paths.library_dir())
    screen.transfers.begin("import", file.name, work, opened, leaves=True)


def _path(name: str) -> Path:
    """A path as people write it, with ~ for the home folder, or as a terminal pastes it, in quotes."""
    name = name.strip()
    if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'":
        name = name[1:-1]
    return (Path.cwd() / Path(name).expanduser()).absolute()
