"""Many parallel delegates: the cost of each must not depend on their number."""

from __future__ import annotations

from collections.abc import AsyncIterator

from bench.durable import folder
from bench.measure import Figure, alternated
from bench.ring import ANSWER, ASKED, INSTRUCTIONS
from changeover import Agent, Limits, Team, delegate
from changeover.messages import Assistant, Call, Reply
from changeover.relay.ports.world import Request

FEW, MANY = 50, 500


class Spreading:
    """A model whose first reply calls the given number of delegates; delegates answer at once."""

    def __init__(self, width: int) -> None:
        self._calls = tuple(Call(f"call_{index}", "delegate_to_aide", {"task": ASKED}) for index in range(width))

    async def reply(self, request: Request) -> Reply:
        asked = any(isinstance(message, Assistant) for message in request.messages)
        return Reply(text=ANSWER) if asked or request.agent == "aide" else Reply(calls=self._calls)

    async def stream(self, request: Request) -> AsyncIterator[Reply]:
        yield await self.reply(request)


def spreading(width: int, store: str | None = None) -> Team:
    """A team of one sender and one delegate."""
    members = [Agent("boss", instructions=INSTRUCTIONS, handoffs=[delegate("aide")]), Agent("aide")]
    limits = Limits(max_handoffs=width, max_turns=2 * width + 2)
    return Team(members, model=Spreading(width), limits=limits, store=store)


async def fan_out() -> list[Figure]:
    """Parallel delegates, in memory and on disk."""
    with folder() as here:
        return [
            await _ratio("delegate", {FEW: spreading(FEW), MANY: spreading(MANY)}, (20, 3)),
            await _ratio(
                "durable delegate",
                {width: spreading(width, f"sqlite:///{here}/{width}.db") for width in (FEW, MANY)},
                (3, 1),
            ),
        ]


async def _ratio(name: str, teams: dict[int, Team], times: tuple[int, int]) -> Figure:
    few, many = teams[FEW], teams[MANY]
    taken = await alternated(
        {"few": (lambda: few.run(ASKED), times[0]), "many": (lambda: many.run(ASKED), times[1])}, repetitions=7
    )
    each, each_of_many = taken["few"].least / FEW, taken["many"].least / MANY
    await few.close()
    await many.close()
    return Figure(f"{name}, {MANY} at once / {FEW}", each_of_many / each, 1.5, f"{each_of_many * 1e6:.0f} µs each")
