"""Commands that change the story's text, or take it elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.story import Properties
from srbwriter.story.model import counted
from srbwriter.tui import clipboard, external, options
from srbwriter.tui import spelling as spell
from srbwriter.tui.actions import verb
from srbwriter.tui.screens.find import FindBar, ReplaceBar
from srbwriter.tui.screens.openings import offer_openings
from srbwriter.tui.screens.properties import PropertiesForm
from srbwriter.tui.welcome import refuse, tell_damage, writes

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen


_DID = {
    "type": "Typing",
    "add": "Passage",
    "pick": "Pick",
    "edit": "Edit",
    "delete": "Deletion",
    "mark": "Mark",
    "settings": "Setting",
    "restore": "Return",
}
"""The verbs of the story, as what they did is called; others by their own names."""


@verb
def undo(screen: WriteScreen) -> None:
    verb = screen.session.undo()
    screen.show_story(where_changed=True)
    screen.notify(f"{_DID.get(verb, verb.capitalize())} taken back." if verb else "Nothing to undo.")


@verb
def redo(screen: WriteScreen) -> None:
    verb = screen.session.redo()
    screen.show_story(where_changed=True)
    screen.notify(f"{_DID.get(verb, verb.capitalize())} done again." if verb else "Nothing to redo.")


@verb
def find(screen: WriteScreen) -> None:
    screen.show_the_story()
    screen.app.push_screen(FindBar(screen.editor, screen.looked))


@verb
@writes
def replace(screen: WriteScreen) -> None:
    def take(text: str, places: int) -> bool:
        done = screen.guarded(lambda: screen.rewrite(text))
        if done:
            screen.notify(f"Replaced in {counted(places, 'place')}.")
        return done

    screen.show_the_story()
    screen.app.push_screen(ReplaceBar(screen.editor, screen.looked, take))


@verb
def copy_story(screen: WriteScreen) -> None:
    clipboard.copy(screen.app, screen.editor.whole)
    screen.notify("The story is on the clipboard.")


@verb
@writes
def own_editor(screen: WriteScreen) -> None:
    external.edit(screen)


@verb
def save(screen: WriteScreen) -> None:
    if screen.session.story.damage is not None:
        tell_damage(screen)
        return
    refuse(screen.session.story)
    screen.session.keep()
    screen.notify(f"Saved in {screen.session.story.file}.")


@verb
@writes
def properties(screen: WriteScreen) -> None:
    session, story = screen.session, screen.session.story

    def take(said: Properties) -> bool:
        kept = screen.guarded(lambda: session.together(lambda: story.set_properties(said)))
        screen.flush_slowly()
        return kept

    screen.app.push_screen(PropertiesForm(story.properties, take, session.draft("title and author")))


@verb
@writes
def openings(screen: WriteScreen) -> None:
    offer_openings(screen)


@verb
def spelling(screen: WriteScreen) -> None:
    app = screen.app
    on = not app.preferences[options.SPELLING]
    app.preferences.put(options.SPELLING, on)
    app.apply_preferences()
    language = screen.session.story.properties.language
    if not on:
        screen.notify("Spelling is off.")
    elif language.partition("-")[0] not in ("", "en"):
        screen.notify(f"The word list is English, and this story is in {language}: A changes that.")
    else:
        screen.notify(f"Words in no English list are underlined; your own belong in {spell.own_file()}.")


@verb
def own_word(screen: WriteScreen) -> None:
    row, column = screen.editor.cursor_location
    word = spell.word_at(screen.editor.document[row], column)
    if not word:
        screen.notify("The cursor is at no word.")
        return
    spell.learn(word)
    screen.editor.spelling = screen.editor.spelling  # paints the lines again
    screen.notify(f"{word} is one of your words now.")
