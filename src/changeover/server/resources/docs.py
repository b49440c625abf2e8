"""Docs: the OpenAPI document, and a page that shows it without any request to another host."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Literal

import fastapi_offline
from fastapi import Request
from fastapi.responses import Response

from changeover.server.middleware import POLICY
from changeover.server.resource import Resource
from changeover.server.wire import Json

resource = Resource("docs")

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Changeover API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="docs"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
START = """SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  requestInterceptor: (request) => {
    const found = document.cookie.split("; ").find((each) => each.startsWith("changeover_csrf="));
    if (found) request.headers["X-CSRF-Token"] = found.slice("changeover_csrf=".length);
    return request;
  },
});
"""
STYLED = POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
"""Swagger UI sets styles on its elements; no other page may."""
MEDIA = {"css": "text/css", "js": "text/javascript"}
Asset = Literal["swagger-ui.css", "swagger-ui-bundle.js", "start.js"]


@resource.route("GET /openapi.json", dict[str, Any])
async def openapi(request: Request) -> Json:
    """This document."""
    prefix = request.scope.get("root_path", "")
    return Json({**request.app.openapi(), **({"servers": [{"url": prefix}]} if prefix else {})})


@resource.route("GET /docs", str, media=("text/html",))
async def docs() -> Response:
    """This document as a page on which calls can be tried."""
    return Response(PAGE, media_type="text/html", headers={"Content-Security-Policy": STYLED})


@resource.route("GET /docs/{file}", str, media=tuple(MEDIA.values()))
async def docs_asset(file: Asset) -> Response:
    """A script or a style of the page."""
    own, media = file == "start.js", MEDIA[file.rpartition(".")[2]]
    content = START.encode() if own else files(fastapi_offline).joinpath("static", file).read_bytes()
    return Response(content, media_type=media, headers={"Cache-Control": "max-age=3600"})
