"""The pages, and the files that they are made of. What browsers are given comes from the package.

No page asks any other server for anything.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from starlette.responses import Response

from ..errors import ApiError
from ..http import Call, Dialect, Endpoint

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_FILES = {
    file.name: file.read_bytes() for file in Path(__file__).parent.iterdir() if file.suffix[1:] in _TYPES
}


def _file(name: str, call: Call) -> Response:
    """Answer with a file of this folder. Raises ApiError (404)."""
    if name not in _FILES or (name == "index.html" and not call.settings.page):
        raise ApiError(404, f"there is no {call.request.url.path[:200]} here")
    return Response(_FILES[name], 200, _HEADERS, _TYPES[name.rpartition(".")[2]])


DIALECT = Dialect(
    "Page and documentation",
    (
        Endpoint("GET /", partial(_file, "index.html"), "a page to write in", public=True, gives_way=True),
        Endpoint("GET /page/{file}", lambda call: _file(call.path["file"], call), "files of the pages",
            public=True),
        Endpoint("GET /docs", partial(_file, "docs.html"), "this description, to be read", public=True),
        Endpoint("GET /chat", partial(_file, "chat.html"), "a page to talk in", public=True),
        Endpoint("GET /completion.js", partial(_file, "completion.js"),
            "llama() and llamaComplete() for pages", public=True),
        Endpoint("GET /openapi.json", lambda call: call.services.openapi, "this description", public=True),
    ),
)  # fmt: skip
