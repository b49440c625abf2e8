"""Drawings in SVG as a browser shows them: no text crosses a box or another text, and boxes stay apart."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from playwright.sync_api import Page

from changeover import Agent, Limits, Team, Variable, delegate, handoff
from changeover.guards import Rule
from changeover.messages import Message, Reply, User
from changeover.testing import ScriptedModel, calls, delegates, hands_off, says
from changeover.tools.tool import ToolDefinition

NAMES = ["triage", "billing", "research", "legal-and-compliance", "archive"]
CROSSINGS = """() => {
  const place = (each) => { const r = each.getBoundingClientRect(); return { r, text: each.textContent }; };
  const texts = [...document.querySelectorAll("text")].map(place);
  const boxes = [...document.querySelectorAll("rect.c")].map(place);
  const meet = ({ r: a }, { r: b }, slack) =>
    a.x + slack < b.right && b.x + slack < a.right && a.y + slack < b.bottom && b.y + slack < a.bottom;
  const within = ({ r: a }, { r: b }) =>
    a.x >= b.x - 1 && a.y >= b.y - 1 && a.right <= b.right + 1 && a.bottom <= b.bottom + 1;
  const pairs = (all) => all.flatMap((one, index) => all.slice(index + 1).map((other) => [one, other]));
  return [
    ...texts.flatMap((text) => boxes.filter((box) => meet(text, box, 1) && !within(text, box)).map(() => text.text)),
    ...pairs(boxes).filter(([a, b]) => meet(a, b, 1)).map(() => "two boxes"),
    ...pairs(texts).filter(([a, b]) => meet(a, b, 3)).map(([a, b]) => `${a.text} / ${b.text}`),
  ];
}"""


def three() -> Team:
    way = handoff("research", variables=[Variable("order", "string")], when=is_urgent)
    members = [
        Agent("triage", handoffs=["billing", way]),
        Agent("billing"),
        Agent("research", handoffs=[delegate("billing")]),
    ]
    return Team(members, model=ScriptedModel({}), rules=[Rule("urgent", if_=is_urgent, goto="billing")])


def is_urgent(ctx: object) -> bool:
    """The customer is in a hurry."""
    return False


def thirty() -> Team:
    ids, chance = [f"agent-{number}" for number in range(30)], Random(3)
    others = {id: chance.sample([each for each in ids if each != id], 2) for id in ids}
    members = [
        Agent(id, description=f"Does the work of {id}", handoffs=[handoff(each, approval=True) for each in found])
        for id, found in others.items()
    ]
    return Team(members, model=ScriptedModel({}))


def sixty_hops() -> Team:
    """A team whose model hands on sixty times, asks delegates, and names an agent that there is not."""
    lines, current = list[Reply](), 0
    for number in range(60):
        if number % 11 == 5:
            asked = [delegates(NAMES[(current + each) % 5], "Look it up") for each in (2, 3)]
            lines.append(calls(*asked))
        if number % 13 == 4:
            lines.append(hands_off("nobody", "Somebody has to do this"))
        current = (current + 1 + number % 3) % 5
        lines.append(hands_off(NAMES[current], f"{number}: the customer was charged twice and wants the money back"))
    lines.append(says("Done."))

    def reply(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        said = [each.text for each in messages if isinstance(each, User)][-1]
        return says("Found.") if said == "Look it up" else lines.pop(0)

    members = [
        Agent(id, handoffs=[each for name in NAMES if name != id for each in (name, delegate(name))]) for id in NAMES
    ]
    limits = Limits(max_handoffs=200, max_turns=400)
    return Team(members, model=ScriptedModel(reply), guards=(), limits=limits)


async def conversation() -> str:
    async with sixty_hops() as team:
        await team.run("Twice!", conversation="c")
        return await team.graph("c", format="svg")


async def all_drawings() -> dict[str, str]:
    return {
        "three agents": await three().graph(format="svg"),
        "thirty agents": await thirty().graph(format="svg"),
        "sixty hops": await conversation(),
    }


@pytest.fixture(scope="module")
def drawings() -> dict[str, str]:
    with ThreadPoolExecutor(1) as thread:  # Playwright has an event loop in this one
        return thread.submit(asyncio.run, all_drawings()).result()


def test_no_text_of_a_drawing_crosses_a_box_or_another_text(drawings: dict[str, str], page: Page):
    found = {}
    for name, drawing in drawings.items():
        page.set_content(drawing)
        assert page.locator("rect.c").count() >= (60 if name == "sixty hops" else 3)
        found[name] = page.evaluate(CROSSINGS)
    assert found == {name: [] for name in drawings}
