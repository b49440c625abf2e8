"""Tools beside functions: HTTP calls, SQL functions, MCP servers, and skills.

`Agent(tools=[…], skills=[…])` takes them. A function becomes a tool by `changeover.tool`.
"""

from changeover.tools.http_tool import ApiKey, Basic, Bearer, HttpTool
from changeover.tools.mcp_server import McpServer
from changeover.tools.skill import Skill
from changeover.tools.sql_function import SqlFunction

__all__ = ["ApiKey", "Basic", "Bearer", "HttpTool", "McpServer", "Skill", "SqlFunction"]
