"""The command line `changeover`: its entry point, which imports little, so that it can end by Ctrl-C at any time."""

from __future__ import annotations

import sys
from io import TextIOWrapper


def main() -> None:
    """The entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        # What agents write may have characters that the encoding of a pipe does not have.
        if isinstance(stream, TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="replace")
    try:
        from changeover.cli.commands import app
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted.\n")
        sys.exit(130)
    app()
