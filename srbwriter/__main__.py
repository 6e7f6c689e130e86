"""``python -m srbwriter``: the same program as the ``srbwriter`` command."""

from __future__ import annotations

import sys

from srbwriter.cli import main

if __name__ == "__main__":
    sys.exit(main())
