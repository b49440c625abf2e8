"""Records histories that later versions of the shell have to replay: `python -m tests.temporal.record_histories`.

Run it for a release. A file that is there stays for ever.
"""

import asyncio
import re
from uuid import uuid4

from changeover import Approve, Temporal, __version__
from changeover.stores.store import Store, upgrade_store
from tests.databases import fresh_schema
from tests.temporal.history import HISTORIES, histories
from tests.temporal.server import server
from tests.temporal.teams import desk, family, payer


async def main() -> None:
    def engine() -> Temporal:
        return Temporal(server(), queue=uuid4().hex, grace=0.1)

    url, handing, paying, asking = fresh_schema(), engine(), engine(), engine()
    upgrade_store(Store(url))
    async with desk(url, handing) as team:
        await team.run("I was charged twice!", conversation="a")
        await keep("handoff", handing)
    async with payer(url, paying, expires=60) as team:
        await team.run("pay", conversation="b")
        [request] = await team.approvals()
        await team.decide(request.id, Approve(), by="ana@example.org")
        await team.resume("b")
        await keep("approval", paying)
    async with family(url, asking, 4) as team:
        await team.run("count", conversation="c")
        await keep("delegates", asking)


async def keep(name: str, engine: Temporal) -> None:
    [history] = await histories(engine)
    path = HISTORIES / f"{__version__}-{name}.json"
    if not path.exists():
        anonymous = re.sub(r'"identity": "[^"]*"', '"identity": "worker"', history.to_json())
        path.write_text(re.sub(r"\d+@[\w.-]+-(?=[0-9a-f]{32})", "worker-", anonymous))


if __name__ == "__main__":
    asyncio.run(main())
