"""Every message that an editor can be told: in the library's own words, with the path of its field."""

from __future__ import annotations

import ast
import re
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import pytest_asyncio

import changeover
from changeover import Agent, Team
from changeover.server import Settings, create_app
from changeover.testing import ScriptedModel, says
from tests.server.desk import close_account, refund
from tests.server.document_faults import CASES, HANDOFF
from tests.server.door import Door

HERE = Path(changeover.__file__).parent
MODULES = (
    *("agent/team_faults", "guards/approval"),
    *(f"documents/{name}" for name in ("agent_document", "handoff_document", "record", "shape")),
    *(f"documents/{name}" for name in ("tool_document", "tool_modules")),
    *(f"tools/{name}" for name in ("http_tool", "mcp_server", "secret", "skill", "sql_function", "tool", "variable")),
)
"""Where the messages about declarations are written."""
BEGINS = re.compile(
    r"(has|needs|uses|is|declares|expects|expected|returns|hands|chooses|the settings|a member|a handoff|'handoffs"
    r"|\{\} (takes|cannot be imported|is not among|defines no))\b"
)
"""How messages about declarations begin, behind the name of the thing."""
CODE_ONLY = {
    "chooses among {}",
    "expected a function, and {} is of type {}",
    "expected what JSON can hold, and {} {}",
    "hands off to {}",
    "has a variable of type {}; use one of {}",
    "has accepts={}; give a function of the package that is offered",
    "has an ApiKey in {}; use 'header' or 'query'",
    "has an approval with on_expiry={}; give 'reject' or 'approve'",
    "has an approval with summary={}; {}",
    "has an approval with when={}; give a function of the context and the arguments",
    "has an invalid id; use letters, digits, '-' and '_', at most 64",
    "has approval={}; give True, a function or Approval(…)",
    "has auth of type {}; give Bearer(…), Basic(…) or ApiKey(…)",
    "has connect_timeout={}; use a number of seconds above 0",
    "has files that are not texts by their paths",
    "has goto={}; give a list of ids",
    "has guards=None; give a list, or leave it out",
    "has handoffs={}; give AUTO, or a list of ids, handoff(…)s and delegate(…)s",
    "has hosts={}; give a list of host names",
    "has instructions={}; give a text, or a function of the run's context",
    "has max_bytes={}; use a number of bytes, 1 or more",
    "has max_concurrency={}; give 1 or more, or None for no limit",
    "has max_iterations={}; give 1 or more",
    "has max_result={}; use a number of characters, 1 or more",
    "has max_rows={}; use a number of rows, 1 or more",
    "has merge={}; use 'merge' or 'replace'",
    "has method={}; use one of {}",
    "has no role",
    "has only {}",
    "has parameters={}; give a list of Variable(…)s",
    "has requires={}; give a list of Variable(…)s",
    "has the alternative {}",
    "has the variable {}; give Variable(…)s or a pydantic model",
    "has timeout={}; give seconds above 0, or None for no limit",
    "has timeout={}; use a number of seconds above 0, or None for no limit",
    "has tools={}; give a list of tools",
    "has variables that cannot be shown to a model ({}); give Variable(…)s or a pydantic model",
    "has variables=, a pydantic model without fields of its own; give one with fields, or Variable(…)s",
    "has {} of type {}; give a mapping of names to texts",
    "has {} of type {}; give a mapping of names to values",
    "has {}={}; give a function",
    "has {}={}; give a list of texts",
    "has {}={}; give a text",
    "has {}={}; use 'tell' or 'rollback'",
    "needs a function, not {}",
    "returns to {}",
    "the settings hold what looks like a key, which no document may hold",
}
"""Messages that no document leads to: it cannot hold such values, or the check of its shape comes first."""


@pytest_asyncio.fixture
async def api() -> AsyncIterator[httpx.AsyncClient]:
    """A client of a team with a handoff tool in its store."""
    members = [
        Agent("triage"),
        Agent("billing", tools=[refund], handoffs=()),
        Agent("manager", tools=[close_account], handoffs=()),
        Agent("research", handoffs=()),
    ]
    model = ScriptedModel(lambda request: says("Done."))
    team = Team(members, start="triage", model=model, tool_modules=["tests.server.desk"])
    async with team, Door(create_app(team, Settings(open_access=True)), team).client() as client:
        (await client.put("/declarations/tool/pay", json=HANDOFF)).raise_for_status()
        yield client


async def told(api: httpx.AsyncClient, editor: str, name: str, document: dict[str, Any]) -> list[tuple[str, str]]:
    """The faults of a draft: their paths and texts."""
    kind = editor if editor in ("agent", "skill") else "tool"
    answer = await api.post(f"/drafts/{kind}/{name}", json={"document": document})
    return [(each["path"], each["text"]) for each in answer.raise_for_status().json()["faults"]]


@pytest.mark.parametrize("editor", CASES)
async def test_each_fault_has_its_words_and_the_path_of_its_field(api: httpx.AsyncClient, editor: str):
    for name, document, path, words in CASES[editor]:
        found = await told(api, editor, name, document)
        assert [text for place, text in found if place == path and words in text], (document, found)


@cache
def templates() -> frozenset[str]:
    """The messages of the library, with {} for what is filled in."""
    return frozenset(
        text
        for module in MODULES
        for text in _texts(ast.parse((HERE / f"{module}.py").read_text()))
        if BEGINS.match(text) and text.count(" ") > 1
    )


def _texts(tree: ast.Module) -> Iterator[str]:
    parts = {id(part) for each in ast.walk(tree) if isinstance(each, ast.JoinedStr) for part in each.values}
    for each in ast.walk(tree):
        if isinstance(each, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in each.values)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in parts:
            yield each.value


async def test_every_message_of_the_library_has_a_case(api: httpx.AsyncClient):
    texts = [
        text
        for editor, cases in CASES.items()
        for name, document, *_ in cases
        for _, text in await told(api, editor, name, document)
    ]
    shown = {each for each in templates() if any(_fits(each, text) for text in texts)}
    assert templates() - shown - CODE_ONLY == set()
    assert CODE_ONLY - templates() | CODE_ONLY & shown == set()


def _fits(template: str, text: str) -> bool:
    """True if a text is this message; tools call their variables parameters."""
    pattern = ".*".join(re.escape(part) for part in template.split("{}"))
    return re.search(pattern.replace("variable", "(variable|parameter)"), text, re.DOTALL) is not None
