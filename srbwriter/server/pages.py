"""What browsers are given: the page to write in, the documentation of the API, and files of one's own.

Everything comes from the package; no page asks any other server for anything.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from starlette.responses import Response

from .call import Call, json_response
from .endpoint import Endpoint
from .errors import ApiError

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
    file = Path(__file__).parent / "page" / name
    return file.read_bytes() if file.is_file() else None


def _file(name: str) -> Response:
    kind = _TYPES.get(name.rpartition(".")[2])
    content = _asset(name) if kind and "/" not in name and "\\" not in name and "\0" not in name else None
    if content is None:
        raise ApiError(404, "File Not Found")
    return Response(content, 200, _HEADERS, kind)


async def index(call: Call) -> Response:
    if not call.settings.page:
        raise ApiError(404, "File Not Found")
    return _file("index.html")


async def asset(call: Call) -> Response:
    return _file(call.path["file"])


async def docs(call: Call) -> Response:
    return _file("docs.html")


async def openapi(call: Call) -> Response:
    return json_response(call.services.openapi)


PAGE = Endpoint("GET", ("/",), index, "llamacpp", "a page to write in", public=True, title="page")
ENDPOINTS = (
    Endpoint("GET", ("/page/{file}",), asset, "llamacpp", "files of the pages", public=True, title="page"),
    Endpoint("GET", ("/docs",), docs, "llamacpp", "this description, to be read", public=True, title="page"),
    Endpoint("GET", ("/openapi.json",), openapi, "llamacpp", "this description", public=True, title="page"),
)
"""The rows besides the page itself, which gives way to a folder of one's own files."""
