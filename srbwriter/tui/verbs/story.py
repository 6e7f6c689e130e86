"""Commands that change the story's text, or take it elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.story import Properties
from srbwriter.tui import clipboard, external
from srbwriter.tui.screens.ask import Ask
from srbwriter.tui.screens.find import FindBar
from srbwriter.tui.screens.openings import offer_openings
from srbwriter.tui.screens.properties import PropertiesForm
from srbwriter.tui.verbs import verb
from srbwriter.tui.welcome import refuse, tell_damage, writes

if TYPE_CHECKING:
    from srbwriter.tui.screens.desk import Desk


@verb
def undo(desk: Desk) -> None:
    desk.session.undo()
    desk.show_story(where_changed=True)


@verb
def redo(desk: Desk) -> None:
    desk.session.redo()
    desk.show_story(where_changed=True)


@verb
def find(desk: Desk) -> None:
    def looked(words: str) -> None:
        desk.found = words

    desk.bench.push_screen(FindBar(desk.editor, desk.found, looked))


@verb
@writes
def replace(desk: Desk) -> None:
    def first(words: str | None) -> None:
        if not words:
            return
        desk.found = words
        times = desk.editor.whole.count(words)
        if not times:
            desk.say(f"{words} is not in the story.")
            return

        def second(by: str | None) -> None:
            if by is not None:
                desk.guarded(lambda: _replace(desk, words, by))

        where = f"in {times} places" if times > 1 else "in one place"
        desk.bench.push_screen(Ask(f"Replace {words} {where} by"), second)

    desk.bench.push_screen(Ask("Find, to replace it", desk.found, select=True), first)


def _replace(desk: Desk, words: str, by: str) -> None:
    whole = desk.editor.whole
    times = whole.count(words)
    desk.rewrite(whole.replace(words, by))
    desk.say(f"Replaced {times} times." if times != 1 else "Replaced once.")


@verb
def copy_story(desk: Desk) -> None:
    clipboard.copy(desk.bench, desk.editor.whole)
    desk.say("The story is on the clipboard.")


@verb
@writes
def own_editor(desk: Desk) -> None:
    external.edit(desk)


@verb
def save(desk: Desk) -> None:
    if desk.session.story.damage is not None:
        tell_damage(desk)
        return
    refuse(desk.session.story)
    desk.session.keep()
    desk.say(f"Saved in {desk.session.story.file}.")


@verb
@writes
def properties(desk: Desk) -> None:
    session, story = desk.session, desk.session.story

    def take(said: Properties) -> bool:
        kept = desk.guarded(lambda: session.together(lambda: story.set_properties(said)))
        desk.flush_slowly()
        return kept

    desk.bench.push_screen(PropertiesForm(story.properties, take, session.draft("title and author")))


@verb
@writes
def openings(desk: Desk) -> None:
    offer_openings(desk)
