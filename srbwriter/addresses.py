"""Addresses of engines elsewhere, as people write them. Knows nothing else of srbwriter."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit, urlunsplit


def normal_address(text: str) -> str:
    """Return an address with a scheme and without a slash or ``/v1`` at its end.

    Raises ValueError for a text that is no address of an HTTP server.
    """
    written = text.strip()
    parts = urlsplit(written if "://" in written else f"http://{written}")  # raises for half a bracket
    if parts.scheme not in ("http", "https") or not parts.hostname or not _may_be_a_port(parts):
        raise ValueError(written)
    path = parts.path.rstrip("/").removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _may_be_a_port(parts: SplitResult) -> bool:
    return parts.port != 0  # raises if it is not a number, or too large
