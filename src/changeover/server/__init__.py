"""The HTTP server: the whole library under /api/v1, as an ASGI app. It needs the extra `server`."""

from changeover.server.app import create_app
from changeover.server.settings import Settings

__all__ = ["Settings", "create_app"]
