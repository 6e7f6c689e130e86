"""Addresses of engines elsewhere, as people write them. Knows nothing else of srbwriter."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit


def normal_address(text: str) -> str:
    """Return an address with a scheme and without a slash or ``/v1`` at its end.

    Raises ValueError for a text that is no address of an HTTP server.
    """
    written = text.strip()
    # urlsplit raises for half a bracket, and port for one that is no number or too large
    parts = urlsplit(written if "://" in written else f"http://{written}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError(written)
    path = parts.path.rstrip("/").removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))
