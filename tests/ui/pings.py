"""An MCP server with one tool, which the tests of the builders start."""

from mcp.server import MCPServer

server = MCPServer("pings")


@server.tool()
def ping(word: str) -> str:
    """Say the word again."""
    return word


if __name__ == "__main__":
    server.run()
