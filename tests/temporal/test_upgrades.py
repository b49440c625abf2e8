"""Workers of one version replaced by another, and processes that take inputs for workers of another version."""

import asyncio
from collections.abc import Callable

from changeover import Agent, Approve, Store, Team, Temporal, delegate, tool
from changeover.facts import Ledger
from changeover.guards import Allow, Deny, Rule
from changeover.guards.guard import Answer, Facts, Offer
from changeover.messages import ToolResult
from changeover.relay.events import ApprovalDecided, CallRefused, HandoffReturned, RuleFired
from changeover.relay.ports.world import Request
from changeover.testing import Reply, ScriptedModel, calls, delegates, hands_off, says
from tests.public_api import soon
from tests.temporal.teams import LEASE, payer

CLERKS = ("clerk-0", "clerk-1", "clerk-2")


class NotToBilling:
    """A guard that only the second version has."""

    def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
        return Deny("not on Sundays") if offer.receiver == "billing" else Allow()


@tool(approval=True)
def pay() -> str:
    """Pay: a tool that only the first version has."""
    return "paid"


@tool
def refund() -> str:
    """Send money back: a tool that only the second version has."""
    return "refunded"


class Shop:
    """Two versions of a team. In the first one, models that have work do not come back."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.begun = set[str]()
        """Agents whose models were asked in the first version."""

    def first(self, engine: Temporal) -> Team:
        async def play(request: Request) -> Reply:
            if request.agent == "payer":
                return calls(("pay", {}))
            if request.agent == "lead":
                return calls(*(delegates(clerk, "count") for clerk in CLERKS))
            self.begun.add(request.agent)
            await asyncio.Event().wait()
            raise AssertionError("the worker was stopped before")

        payer = Agent("payer", tools=[pay])
        return Team([payer, *self._others()], model=ScriptedModel(play), store=self._store, engine=engine)

    def second(self, engine: Temporal) -> Team:
        async def play(request: Request) -> Reply:
            last = request.messages[-1]
            match request.agent, last:
                case "payer", ToolResult() if "refunded" not in last.text:
                    return calls(("refund", {}))
                case "writer", message if not isinstance(message, ToolResult):
                    return hands_off("billing", "Yours.")
                case (("payer" | "writer"), _):
                    return says(last.text)
                case "lead", _:
                    return says("All are back.")
                case agent, _:
                    return says(f"{agent} of the second version")

        members = [Agent("payer", tools=[refund]), *self._others(), Agent("senior")]
        rules = [Rule("vip goes to senior", if_=lambda ctx: ctx.context.get("tier") == "vip", goto="senior")]
        return Team(
            members, model=ScriptedModel(play), store=self._store, engine=engine, guards=[NotToBilling()], rules=rules
        )

    @property
    def _store(self) -> Store:
        return Store(self._url, lease=LEASE)

    def _others(self) -> list[Agent]:
        lead = Agent("lead", handoffs=[delegate(clerk) for clerk in CLERKS])
        return [Agent("writer"), Agent("billing"), lead, *(Agent(clerk, handoffs=()) for clerk in CLERKS)]


async def test_workers_are_replaced_by_a_version_with_other_tools_guards_and_rules(
    postgres: str, temporal: Callable[..., Temporal]
):
    shop = Shop(postgres)

    async def all_have_begun() -> bool:
        return shop.begun == {"writer", *CLERKS} and len(await asking.approvals()) == 1

    async with shop.second(temporal(worker=False)) as asking:
        async with shop.first(temporal()):
            runs = {
                "waits": asking.run("pay", conversation="waits", agent="payer"),
                "works": asking.run("write", conversation="works", agent="writer"),
                "fans-out": asking.run("count", conversation="fans-out", agent="lead"),
            }
            going = {name: asyncio.ensure_future(run) for name, run in runs.items()}
            assert await soon(all_have_begun, 30)
        async with shop.second(temporal()):
            [request] = await asking.approvals()
            await asking.decide(request.id, Approve(), by="ana@example.org")
            ruled = await asking.run("hello", conversation="begins", agent="writer", context={"tier": "vip"})
            assert ruled.output == "senior of the second version"
            paid = await asking.resume("waits")
            assert (paid.status, paid.output) == ("completed", "refunded")
            assert (await going["works"]).output == "refused: not on Sundays"
            assert (await going["fans-out"]).output == "All are back."
            await going["waits"]
            kinds = [type(each.event) for name in (*runs, "begins") for each in await asking.history(name)]
    assert (kinds.count(HandoffReturned), RuleFired in kinds, CallRefused in kinds) == (3, True, True)


async def test_a_process_that_takes_inputs_leaves_it_to_the_worker_what_follows(
    postgres: str, temporal: Callable[..., Temporal]
):
    """The process that takes inputs has an older version of the team, which has no tool: it would refuse the call."""
    older = Team(
        [Agent("triage")],
        model=ScriptedModel({}),
        store=Store(postgres, lease=LEASE),
        engine=temporal(worker=False),
    )
    async with older, payer(postgres, temporal()) as worker:
        [request] = (await older.run("pay", conversation="c1")).requests
        await older.decide(request.id, Approve(), by="ana@example.org")
        assert (await older.resume("c1")).output == "Done."
        entries = await worker.log.read("c1")
    first, decided = entries[0], next(each for each in entries if isinstance(each.events[0], ApprovalDecided))
    assert ([type(each).__name__ for each in first.events], len(decided.events)) == (["Started", "UserSpoke"], 1)
