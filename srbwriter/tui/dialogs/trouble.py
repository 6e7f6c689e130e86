"""Messages about a damaged story file, and about a defect of the program."""

from __future__ import annotations

import shlex
import time

from srbwriter import logs, paths
from srbwriter.story import Story
from srbwriter.story.library import Backup, backups, open_story
from srbwriter.story.model import FileError, counted


def damage_question(story: Story) -> tuple[str, dict[str, str], Backup | None]:
    """Return what is left of a damaged story and what can be done: the question, its answers by key, and
    the newest copy that is whole."""
    folder = story.backup_folder(paths.backup_dir())
    left, copies = sum(node.count.words for node in story), backups(folder)
    good = next((copy for copy in copies if _is_whole(copy)), None)
    passages = counted(len(story), "passage")
    kept = f"{counted(left, 'word')} in {passages}" if left else "no word of it can be read"
    lines = [
        "This story's file is damaged",
        f"{story.file}\n",
        f"What is left: {kept}",
        f"What is lost: {story.damage}",
    ]
    named = shlex.quote(str(story.file))
    lines += [
        "\nThe story is open for reading only, and its file is not changed.",
        f"Copies: {len(copies) or 'none'} known. In a shell, srbwriter backup list {named} shows them,",
        f"srbwriter backup restore makes a story of one, srbwriter check {named} says what was found.\n",
    ]
    answers: dict[str, str] = {}
    if good is not None:
        when = time.strftime("%Y-%m-%d %H.%M", time.localtime(good.at))
        answers["c"] = f"opens the copy of {when}, which is whole"
    if left:
        answers["r"] = "continues in a copy beside it, with what is left"
    return "\n".join(lines), {**answers, "enter": "reads what is left"}, good


def _is_whole(copy: Backup) -> bool:
    try:
        return not open_story(copy.path, readonly=True).problem
    except FileError:
        return False


def crash_words(error: BaseException) -> str:
    """Write a crash report; return a message with the error and the report's path."""
    report = logs.write_crash_report(error)
    where = f"A report with the details is in {report}." if report else "No report could be written."
    return (
        f"srbwriter has a defect: {type(error).__name__}: {error}\n"
        f"Your story is safe: every word is saved as it is written.\n{where}"
    )
