"""The table of commands: the one place where a command of the workbench is written down.

Bindings, command palette, key line, help, the leader's menu and the page of keys in the documentation are
all made from these rows. A row says what and with which keys; the handler of the same name stands in
``srbwriter.tui.actions``. Pure data: this module must never import Textual.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One command. Keys are comma-separated names as Textual spells them.

    ``keys`` work while a pane has the focus, and behind the leader everywhere; ``anywhere`` work with any
    focus, so they are never characters. ``hint`` is the label on the key line; a command without one is not
    shown there. ``vim`` replaces ``keys`` in the vim keymap. A ``numbered`` command has one key for each
    digit and is told which.
    """

    id: str
    group: str
    title: str
    help: str
    keys: str = ""
    anywhere: str = ""
    hint: str = ""
    vim: str = ""
    numbered: bool = False


LEADER = "ctrl+g"
DIGITS = "1,2,3,4,5,6,7,8,9"

_BRANCH = "This branch"
_ALL = "All branches"
_TAKE = "Taking a part"
_STORY = "Story"
_STORIES = "Stories"
_VIEW = "View"
_TREE = "The tree"
_KNOBS = "Knobs"
_PROGRAM = "Program"

GROUPS = (_BRANCH, _TAKE, _ALL, _STORY, _STORIES, _TREE, _KNOBS, _VIEW, _PROGRAM)
"""Groups in the order of help and documentation."""


# fmt: off
COMMANDS: tuple[Command, ...] = (
    Command("pick_number", _BRANCH, "Pick a branch by number",
            "Append branch 1 to 9 to the story; new ones go on from there.",
            DIGITS, hint="pick", numbered=True),
    Command("pick", _BRANCH, "Pick this branch",
            "Append the branch to the story, up to the taking cursor if one is set.", "enter"),
    Command("reroll", _BRANCH, "Re-roll this branch",
            "Write it again from the start with a new seed; the others go on.", "r", hint="re-roll"),
    Command("kill", _BRANCH, "Kill this branch",
            "End it, or one that has ended, and give its memory back.", "k", hint="kill", vim="x"),
    Command("stop", _BRANCH, "Stop this branch", "End it here and keep its text.", "s"),
    Command("pause", _BRANCH, "Pause or resume this branch",
            "Hold the branch still, or let it go on.", "space"),
    Command("extend", _BRANCH, "Extend this branch",
            "Let a finished branch go on from where it ended.", "e"),
    Command("rewind", _BRANCH, "Rewind one sentence",
            "Drop the branch's last sentence and write on from there with a new seed.", "backspace",
            hint="rewind"),
    Command("type_into", _BRANCH, "Type into this branch",
            "Write words of your own at its end; it goes on from there.", "i"),
    Command("edit_pick", _BRANCH, "Edit, then pick",
            "Change the branch's text on a sheet; what you keep becomes part of the story.", "o"),
    Command("lock", _BRANCH, "Lock or unlock this branch",
            "A locked branch is left alone when all are re-rolled.", "l", vim="L"),
    Command("copy", _BRANCH, "Copy this branch", "Put its text on the clipboard.", "c", vim="y"),
    Command("rate_up", _BRANCH, "Rate up", "Mark the branch as good; again to take that back.",
            "greater_than_sign"),
    Command("rate_down", _BRANCH, "Rate down", "Mark the branch as bad; again to take that back.",
            "less_than_sign"),
    Command("bookmark", _BRANCH, "Bookmark this branch", "Mark it to find it again; again to take that back.",
            "b"),
    Command("branch_knobs", _BRANCH, "Knobs of this branch",
            "Change how this branch chooses its words, while it runs.", "t"),
    Command("compare", _BRANCH, "Compare with another branch",
            "Show the words in which two branches differ.", "vertical_line"),

    Command("take_word", _TAKE, "Take a word more", "Move the taking cursor to the next word's end.", "w"),
    Command("untake_word", _TAKE, "Take a word less", "Move the taking cursor back one word.", "W"),
    Command("take_sentence", _TAKE, "Take a sentence more",
            "Move the taking cursor to the sentence's end.", "d"),
    Command("untake_sentence", _TAKE, "Take a sentence less",
            "Move the taking cursor back one sentence.", "D"),
    Command("take_paragraph", _TAKE, "Take a paragraph more",
            "Move the taking cursor to the paragraph's end.", "f"),
    Command("untake_paragraph", _TAKE, "Take a paragraph less",
            "Move the taking cursor back one paragraph.", "F"),

    Command("generate", _ALL, "Write new branches",
            "Write N branches from where the story stands.", "g", "ctrl+n", hint="write"),
    Command("write_from", _ALL, "Write from the cursor",
            "Write branches from the cursor on; what follows it becomes another branch.", "G", "ctrl+b"),
    Command("stop_all", _ALL, "Stop everything",
            "Stop an export or import, the load of a model, or all branches."),
    Command("back", _ALL, "Step back",
            "Stop an export, an import or a load; from the story go to the branches; there stop them.",
            anywhere="escape", hint="stop"),
    Command("reroll_all", _ALL, "Re-roll all branches",
            "Write all but the locked ones again with new seeds.", "R"),
    Command("more", _ALL, "A branch more",
            "Add a branch, also while others are being written.", "plus,equals_sign"),
    Command("fewer", _ALL, "A branch fewer",
            "End the last branch, and write one fewer from now on.", "minus"),
    Command("next_page", _ALL, "Next page of branches",
            "Show the branches that did not fit.", "right_square_bracket"),
    Command("previous_page", _ALL, "Previous page of branches", "Go back a page.", "left_square_bracket"),

    Command("undo", _STORY, "Undo",
            "Take back the last change to the story: a pick or your own words.", "u", "ctrl+z"),
    Command("redo", _STORY, "Redo", "Do again what was undone.", "U", "ctrl+y"),
    Command("find", _STORY, "Find", "Go through the places of some words in the story, from the cursor on.",
            "slash", "ctrl+f"),
    Command("replace", _STORY, "Find and replace",
            "Replace words all over the story; one undo takes it back."),
    Command("copy_story", _STORY, "Copy the story", "Put the whole text on the clipboard.", "C"),
    Command("spelling", _STORY, "Spelling",
            "Underline words that are in no English list nor among your own; again for none.", "dollar_sign"),
    Command("own_word", _STORY, "One of my words", "Add the word at the cursor to your own words.",
            "percent_sign"),
    Command("own_editor", _STORY, "Your own editor",
            "Edit the story in $EDITOR and come back.", anywhere="f4"),
    Command("save", _STORY, "Save now",
            "Everything is saved as you write; this waits for it.", anywhere="ctrl+s"),
    Command("openings", _STORY, "Begin with a sample",
            "Choose an opening and have branches written at once."),
    Command("properties", _STORY, "Title, author, language",
            "What the story is called, who writes it and in which language; books say so too.", "A"),
    Command("export", _STORY, "Export the story",
            "Write it to a file: a book, a Word document, a page, text or JSON, as its ending says.", "E"),
    Command("import", _STORY, "Import a file",
            "Make a story of a text or of another program's file, and open it.", "I"),

    Command("stories", _STORIES, "Another story",
            "Go to another story; every word of this one is kept.", "n", "ctrl+o"),
    Command("new_story", _STORIES, "New story", "Begin an empty story in the library.", "asterisk"),
    Command("rename_story", _STORIES, "Rename the story", "Give it another title; its file stays.",
            "quotation_mark"),
    Command("duplicate_story", _STORIES, "Duplicate the story",
            "Go on in a copy, with all its branches; this one stays as it is.", "ampersand"),
    Command("snapshot", _STORIES, "Snapshot", "Keep a copy of the story as it is now, under a name.",
            "exclamation_mark"),
    Command("restore", _STORIES, "Restore a copy",
            "Make a story of a snapshot or of a copy of the day; this one stays as it is.", "at"),

    Command("tree", _TREE, "The tree", "See every branch ever written, go to one and write on there.",
            "T", "f3", hint="tree"),
    Command("parent", _TREE, "Back one pick", "Stand where the last pick was made.", "P"),
    Command("split", _TREE, "Split at the cursor",
            "Make two nodes of one, at the cursor in the story: a place to branch off, or a chapter.",
            "backslash"),
    Command("merge", _TREE, "Join with the node before",
            "Make one node of the last two; branches beside the last keep their text.", "J"),
    Command("search", _TREE, "Search the tree", "Find words in all branches, also those not picked.", "S"),
    Command("bookmarks", _TREE, "Bookmarks", "Go to a bookmarked branch.", "B"),
    Command("history", _TREE, "History of picks", "Go back to any point of the way here.", "H"),
    Command("bin", _TREE, "The bin", "Bring back a branch that was deleted.", "Z"),

    Command("knobs", _KNOBS, "Knobs", "How branches choose their words: samplers, stops, presets, a ladder.",
            "K", "f2", hint="knobs"),
    Command("memory", _KNOBS, "Memory", "What the model is told before the story.", "M"),
    Command("author_note", _KNOBS, "Author's note", "What the model is told near the end of the story.", "N"),
    Command("lore", _KNOBS, "Lorebook", "Entries the model is told when their keys come up.", "O"),
    Command("context", _KNOBS, "What the model sees", "The context by source, in tokens.", "X", "f8"),
    Command("model", _KNOBS, "Change the model", "Choose another model file; the story stays.", "m"),

    Command("switch", _VIEW, "Story or branches",
            "Move between the story and the branches.", "a", "tab", hint="story"),
    Command("left", _VIEW, "Branch to the left", "Go to the branch to the left.", "left", vim="h,left"),
    Command("right", _VIEW, "Branch to the right", "Go to the branch to the right.", "right", vim="l,right"),
    Command("up", _VIEW, "Branch above", "Go to the branch above.", "up", vim="k,up"),
    Command("down", _VIEW, "Branch below", "Go to the branch below.", "down", vim="j,down"),
    Command("read_on", _VIEW, "Read on in this branch", "Scroll the branch a page down.", "pagedown"),
    Command("read_back", _VIEW, "Read back in this branch",
            "Scroll the branch a page up; it stays where you leave it.", "pageup"),
    Command("follow", _VIEW, "Follow this branch",
            "Keep the end of the branch in view while it grows.", "end"),
    Command("from_start", _VIEW, "To the branch's beginning", "Show how the branch begins.", "home"),
    Command("layout", _VIEW, "Next layout",
            "Branches below the story, to its right, or all in one column.", "v", "ctrl+l"),
    Command("more_story", _VIEW, "More room for the story", "Five percent of the window more.",
            "right_curly_bracket"),
    Command("less_story", _VIEW, "More room for the branches", "Five percent of the window more.",
            "left_curly_bracket"),
    Command("provenance", _VIEW, "Who wrote what",
            "Tint the words of the model, edited ones and imported ones; yours stay plain. Again for none.",
            "V"),
    Command("quiet", _VIEW, "Write in quiet",
            "The story alone, the cursor's line always in the middle; again, or esc, for everything.",
            "Q", "ctrl+t"),
    Command("single", _VIEW, "One branch, large", "Show this branch alone; again for all.", "z", "f9"),

    Command("jump", _VIEW, "Jump to a branch",
            "Show a letter on each branch; press it to go there.", "apostrophe"),
    Command("read", _VIEW, "Read mode", "The story as a clean page; again to go back.", "p", "ctrl+r"),
    Command("theme", _VIEW, "Theme", "Choose colours; they change as you look through them."),

    Command("palette", _PROGRAM, "Find a command",
            "All commands by name.", anywhere="ctrl+p", hint="commands"),
    Command("help", _PROGRAM, "Help", "All keys.", "question_mark", "f1", hint="help"),
    Command("settings", _PROGRAM, "Settings", "Every setting, and where it was set.", anywhere="f10"),
    Command("log", _PROGRAM, "The log", "What the program and the model library reported.", anywhere="f12"),
    Command("suspend", _PROGRAM, "Suspend", "Back to the shell; fg returns here."),
    Command("leader", _PROGRAM, "Leader",
            "The next key acts as if a branch had the focus.", anywhere=LEADER),
    Command("quit", _PROGRAM, "Quit", "Leave; every word is kept.", anywhere="ctrl+q", hint="quit"),
)
# fmt: on


def by_id() -> dict[str, Command]:
    return {command.id: command for command in COMMANDS}


def keys_of(command: Command, keymap: str = "default", own: Mapping[str, str] | None = None) -> list[str]:
    """The keys that run ``command`` on a branch: the writer's ``own`` if given, else those of the keymap."""
    return _split((own or {}).get(command.id) or (command.vim if keymap == "vim" else "") or command.keys)


def anywhere_of(command: Command, own: Mapping[str, str] | None = None) -> list[str]:
    """The keys that run ``command`` with any focus; one of the writer's own takes their place if it can."""
    chosen = _split((own or {}).get(command.id, ""))
    return [key for key in chosen if is_control(key)] or _split(command.anywhere)


def is_control(key: str) -> bool:
    """True for a key that never types a character."""
    function_key = len(key) > 1 and key[0] == "f" and key[1:].isdigit()
    return key.startswith("ctrl+") or function_key or key == "escape"


def _split(keys: str) -> list[str]:
    return [key.strip() for key in keys.split(",") if key.strip()]
