"""A document that this version wrote is read by all later versions, with the same meaning."""

from pathlib import Path

from changeover import (
    AUTO,
    Agent,
    Approval,
    Function,
    Limits,
    Person,
    Recent,
    Reference,
    Summary,
    Variable,
    delegate,
    handoff,
    specialist,
    tool,
)
from changeover.bus import Emit, Schedule, Specialist, Subscription, Webhook
from changeover.documents.team_document import read_team
from changeover.guards import Rule, VariablesAre
from changeover.protocol import Expects
from changeover.routing import Routing
from changeover.routing.experience import Learning
from changeover.tools import Basic, Bearer, HttpTool, McpServer, Skill, SqlFunction
from changeover.workflows import Retry, Workflow, WorkflowStep
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
DEPLOY = Workflow(
    "deploy",
    name="Deployment",
    description="Tests, then deploys.",
    output="steps.ship.text",
    limits=Limits(max_turns=30),
    steps=[
        WorkflowStep(
            "test",
            agent="billing",
            input="Test {inputs.version}",
            context={"version": "inputs.version", "open": own.is_open},
            for_each="inputs.services",
            concurrency=5,
        ),
        WorkflowStep(
            "ship",
            function=own.noted,
            after=["test"],
            when="length(steps.test.output) > `0`",
            retry=Retry(2, wait=5, factor=3),
            timeout=60,
            approval=Approval(roles=("manager",)),
            on_rollback="ana",
            name="Ship it",
        ),
        WorkflowStep("note", function="notes", after=["ship"], retry=1),
    ],
)
SUBSCRIPTIONS = (
    Subscription(
        "security.*",
        to=Specialist("refunds", task="Look: {data.summary}"),
        where="data.severity >= `7`",
        priority="urgent",
    ),
    Subscription("order.*", to="deploy", name="orders", tries=3, backoff=2.5, timeout=9, concurrency=2),
    Subscription("order.paid", to="triage", task="Look at {data.order}", priority=3),
    Subscription("*", to=Webhook("https://example.org/hook", secret="${HOOK}", allow_private=True, timeout=3)),
    Subscription("tick", to=own.judge),
)
SCHEDULES = (
    Schedule(
        "weekly",
        cron="0 7 * * 1",
        timezone="Europe/Berlin",
        start="triage",
        task="Report.",
        missed="skip",
        priority="high",
    ),
    Schedule("nightly", cron="0 2 * * *", start="deploy", data={"version": "next"}),
    Schedule("ticks", cron="* * * * *", start=Emit("tick", {"a": 1}, source="clock"), overlap="queue"),
)
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
    "workflows": (DEPLOY,),
    "subscriptions": SUBSCRIPTIONS,
    "schedules": SCHEDULES,
}


def test_the_document_of_version_0_1_0_means_what_it_meant():
    document = read_team(GOLDEN.read_text(encoding="utf-8"), GOLDEN.name, imported)
    for found, expected in zip(document.members, MEMBERS, strict=True):
        assert found == expected
    assert document.options == SETTINGS
