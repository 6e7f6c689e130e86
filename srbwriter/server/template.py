"""The chat template that a server was told to use instead of the model's own. Knows no request."""

from __future__ import annotations

from srbwriter.engine.chat import CHATML, render
from srbwriter.engine.types import InvalidRequest

from .auth import ServerError
from .settings import ServerSettings

_TRIAL = ({"role": "user", "content": "Hello"},)


def template_of(settings: ServerSettings) -> str | None:
    """The text of the template, or None for the model's own.

    Raises ServerError for the name of a template that is not here, and for one that is broken.
    """
    told = settings.chat_template
    if not told:
        return None
    if told.strip().lower() == "chatml":
        return CHATML
    if "{" not in told:
        raise ServerError(
            f"no chat template goes by the name {told[:60]!r}, only chatml; "
            "give the template itself, or its file with --chat-template-file"
        )
    try:
        render(told, _TRIAL, bos="", eos="")
    except InvalidRequest as error:
        if error.field == "chat_template":
            raise ServerError(f"the chat template cannot be used: {error.problem}") from error
        # It only refused the trial's messages: it may want a system message, say.
    return told
