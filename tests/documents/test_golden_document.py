"""A document that this version wrote is read by all later versions, with the same meaning."""

from pathlib import Path

from changeover import (
    AUTO,
    Agent,
    Approval,
    Basic,
    Bearer,
    Function,
    HttpTool,
    Limits,
    McpServer,
    Person,
    Recent,
    Reference,
    Skill,
    SqlFunction,
    Summary,
    Variable,
    delegate,
    handoff,
    specialist,
    tool,
)
from changeover.documents.team_document import read_team
from changeover.guards import Rule, VariablesAre
from changeover.protocol import Expects
from changeover.routing import Routing
from changeover.routing.experience import Learning
from tests.documents import declared_functions as own

GOLDEN = Path(__file__).parent / "golden" / "team-0.1.0.yaml"


def imported(module: str, name: str) -> object:
    assert module == "declared_functions"
    return getattr(own, name)


ASK_EXPERT = delegate(
    "expert",
    name="ask_expert",
    description="Knows the law.",
    instructions="Be brief.",
    variables=[Variable("case"), Variable("amount", "number", False, "In EUR")],
    strategy=Summary(needs=("prices",), max_tokens=200, exclude=("tool:get_order",)),
    when=own.is_open,
    approval=True,
    timeout=None,
    alternatives=["ana"],
    expects=Expects(output={"type": "object"}, criteria=("It names a law.", own.judge), timeout=30),
    on_accepted=own.judge,
    on_rollback=own.judge,
    on_timeout="rollback",
    on_failure="rollback",
    final=True,
    max_iterations=3,
)
TO_BILLING = handoff(
    "billing",
    description="Payments.",
    variables=[Variable("order_id", description="The order")],
    instructions="Check the order first.",
    return_to="triage",
    merge="replace",
)
REFUND = tool(name="refund", description="Sends money back.", approval=own.is_large, at_most_once=True)(
    own.pay_back.function
)
GET_ORDER = HttpTool(
    "get_order",
    method="POST",
    url="https://api.example.org/orders/{id}",
    description="Get an order.",
    parameters=[Variable("id"), Variable("page", "integer", False)],
    query={"page": "{page}"},
    headers={"X-Team": "shop"},
    body={"full": True},
    auth=Bearer("${ORDERS_TOKEN}"),
    select="items[0]",
    hosts=["api.example.org"],
    idempotency_header="X-Key",
    max_bytes=10_000,
    timeout=5,
    retries=2,
    read_only=True,
    max_result=900,
    when=own.is_open,
)
FIND_ORDERS = SqlFunction(
    "find_orders",
    rest="https://db.example.org",
    function="shop.find_orders",
    parameters=[Variable("customer")],
    max_rows=5,
    auth=Basic("ana", "${DB_PASSWORD}"),
)
SHOP = McpServer(
    "shop",
    command=["shop-server", "--stdio"],
    env={"TOKEN": "${SHOP_TOKEN}"},
    cwd="/srv",
    prefix="my_shop",
    include=["list_*"],
    exclude=["list_secret"],
    connect_timeout=5,
)
REFUNDS = Skill(
    "refunds",
    description="How to send money back.",
    instructions="Look up the limit first.",
    files={"limits.md": "At most 50 euros."},
)
MEMBERS = [
    Agent(
        "triage",
        name="Triage",
        description="Greets everybody.",
        instructions="Find out what is needed.\nThen hand over.\n",
        model=["offline", "offline"],
        tools=[GET_ORDER, own.look, REFUND],
        handoffs=["notes", ASK_EXPERT, specialist(among=["expert", "billing"]), TO_BILLING],
        skills=[REFUNDS],
        settings={"temperature": 0},
        parallel_tools=True,
    ),
    Agent(
        "billing",
        specialization="money",
        capabilities=["refunds"],
        examples=["I was charged twice"],
        accepts=own.judge,
        requires=[Variable("order_id")],
        pull=True,
        max_concurrency=2,
        output=own.Lead,
        strategy=Reference(),
        briefing=own.packed,
        checks=[own.judge],
        tools=[FIND_ORDERS, SHOP],
        handoffs=[],
    ),
    Agent("expert", handoffs=AUTO),
    Function("notes", own.noted),
    Person("ana", name="Ana", description="Our lawyer"),
]
MANAGER = Approval(expires=60, on_expiry="approve", roles=("manager",))
SETTINGS = {
    "name": "shop",
    "start": "triage",
    "model": "offline",
    "helper_model": ["offline", "offline"],
    "strategy": Recent(3),
    "briefing": "Do: {your_task}",
    "limits": Limits.tier("auto", judge=True, max_turns=20, max_depth=2, max_cost=0.5, timeout=60, on_limit="tell"),
    "rules": (
        Rule(
            "vip",
            if_=VariablesAre({"tier": ["gold", "platinum"]}),
            goto="billing",
            message="A customer of the highest tier.",
            agents=["triage"],
            approval=MANAGER,
        ),
        Rule(if_=own.is_open, deny="We are closed."),
        Rule(if_=VariablesAre({"blocked": True}), end="Please call us."),
    ),
    "routing": Routing(
        learning=Learning(half_life=50, margin=0.2, speed=0.1, thrift=0.1, usual_seconds=30, usual_cost=0.2),
        when_busy="queue",
        no_takers="queue",
        judge=False,
    ),
    "handoffs_enabled": {"triage": 0.5, "billing": True},
    "fallback": True,
    "model_retries": 1,
    "tool_retries": 3,
    "store": "sqlite:///shop.db",
}


def test_the_document_of_version_0_1_0_means_what_it_meant():
    document = read_team(GOLDEN.read_text(encoding="utf-8"), GOLDEN.name, imported)
    for found, expected in zip(document.members, MEMBERS, strict=True):
        assert found == expected
    assert document.options == SETTINGS
