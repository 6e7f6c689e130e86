"""The pages, and the files that they are made of. What browsers are given comes from the package.

No page asks any other server for anything.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

from starlette.responses import Response

from srbwriter.server.context import Context
from srbwriter.server.endpoints import Handler, Leaf, respond, rows_of
from srbwriter.server.errors import LLAMACPP, ApiError

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@cache
def _asset(name: str) -> bytes | None:
    file = Path(__file__).parent / name
    return file.read_bytes() if file.is_file() else None


def _file(name: str) -> Response:
    kind = _TYPES.get(name.rpartition(".")[2])
    content = _asset(name) if kind and "/" not in name and "\\" not in name and "\0" not in name else None
    if content is None:
        raise ApiError(404, "File Not Found")
    return Response(content, 200, _HEADERS, kind)


def _page(name: str) -> Handler:
    async def handler(context: Context) -> Response:
        return _file(name)

    return handler


async def index(context: Context) -> Response:
    if not context.settings.page:
        raise ApiError(404, "File Not Found")
    return _file("index.html")


async def asset(context: Context) -> Response:
    return _file(context.path["file"])


_row = partial(rows_of(LLAMACPP, "Page and documentation"), public=True)
LEAF = Leaf(
    rows=(
        _row("GET /", index, "a page to write in", gives_way=True),
        _row("GET /page/{file}", asset, "files of the pages"),
        _row("GET /docs", _page("docs.html"), "this description, to be read"),
        _row("GET /chat", _page("chat.html"), "a page to talk in"),
        _row("GET /completion.js", _page("completion.js"), "llama() and llamaComplete() for pages"),
        _row("GET /openapi.json", respond(lambda context: context.services.openapi), "this description"),
    )
)
