"""Scripts of models that several stories share."""

from collections.abc import Sequence

from changeover.messages import Message
from changeover.testing import Reply, says
from changeover.tools.tool import ToolDefinition


def names_its_tools(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """Answer with the tools on offer and the receivers of each handoff."""
    return says(shown(tools))


def recites(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """Answer with everything that was there to read."""
    return says(repr(messages))


def shown(tools: Sequence[ToolDefinition]) -> str:
    """Tools as a line: `look; handoff(billing, tech)`."""
    return "; ".join(f"{tool.name}({', '.join(tool.receivers)})" if tool.receivers else tool.name for tool in tools)


def texts(messages: Sequence[Message]) -> list[str]:
    """What stands in each message."""
    return [message.text for message in messages]
