"""A real MCP server, written with the official SDK: `python -m tests.toolkits.mcp_shop [http PORT]`.

It has tools that behave, and tools that do what servers should not.
"""

import asyncio
import os
import sys
import threading
import time
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp.types import ToolAnnotations

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16

server = MCPServer("shop", log_level="CRITICAL")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def find_order(number: int, note: str = "") -> dict[str, object]:
    """Find an order by its number."""
    return {"number": number, "note": note}


@server.tool()
def refund(number: int, ctx: Context) -> str:
    """Refund an order."""
    meta = ctx.request_context.meta or {}
    with Path(os.environ["SHOP_LOG"]).open("a") as file:
        file.write(f"refund {number} {meta.get('changeover/idempotency-key')}\n")
    return f"refunded {number}"


@server.tool()
def whoami() -> dict[str, str]:
    """What this process is, and the secret that it was given."""
    token = os.environ.get("SHOP_TOKEN", "")
    print(f"asked for {token}", file=sys.stderr, flush=True)
    return {"pid": str(os.getpid()), "token": token}


@server.tool(name="key.of-call")
def key_of_call(ctx: Context) -> str:
    """The idempotency key of this call; its name is not one that providers take."""
    meta = ctx.request_context.meta or {}
    return str(meta.get("changeover/idempotency-key", "none"))


@server.tool()
def trace_of_call(ctx: Context) -> str:
    """The span of this call."""
    meta = ctx.request_context.meta or {}
    return str(meta.get("traceparent", "none"))


@server.tool(structured_output=False)
def picture() -> list[object]:
    """A picture, and a text about it."""
    return ["the parcel", Image(data=PNG, format="png")]


@server.tool()
async def change_tools(ctx: Context, add: bool) -> str:
    """Add a tool, or remove it again."""

    def extra() -> str:
        """A tool that comes and goes."""
        return "extra"

    if add:
        server.add_tool(extra, name="extra")
    else:
        server.remove_tool("extra")
    await ctx.notify_tools_changed()
    return "changed"


@server.tool()
def complain() -> str:
    """Fail."""
    raise LookupError("no such order")


@server.tool()
def die() -> str:
    """End the process during the call."""
    os._exit(3)


@server.tool()
async def hang() -> str:
    """Never answer this call, nor anything else from then on."""
    time.sleep(600)  # noqa: ASYNC251
    return "never"


@server.tool()
def flood() -> str:
    """Much more than a model can read."""
    return "flood " * 400_000


@server.tool()
def garble() -> str:
    """Write to the wire what is not of the protocol, and then answer."""
    os.write(1, b"this is no JSON\n" * 20 + b'{"jsonrpc": "2.0", "nonsense": true}\n')
    return "garbled"


def end_with_parent() -> None:
    """Exit when the process that started this one is gone, however it ended: its end of the pipe closes."""
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        threading.Thread(target=end_with_parent, daemon=True).start()
        asyncio.run(server.run_streamable_http_async(port=int(sys.argv[2])))
    else:
        server.run("stdio")
