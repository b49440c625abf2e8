"""Random teams for Hypothesis: members and settings of every kind that a document can express."""

from typing import Any

from hypothesis import strategies as st

from changeover import (
    AUTO,
    Agent,
    Approval,
    Full,
    Function,
    Limits,
    MessageOnly,
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
from changeover.agent.handoff import Delegate, Handoff
from changeover.bus import Emit, Schedule, Specialist, Subscription, Webhook
from changeover.guards import Rule, VariablesAre
from changeover.protocol import Expects
from changeover.routing import Routing
from changeover.routing.experience import Learning
from changeover.tools import ApiKey, Basic, Bearer, HttpTool, McpServer, Skill, SqlFunction
from changeover.workflows import Retry, Workflow, WorkflowStep
from tests.documents import declared_functions as own

IDS = ("triage", "billing", "expert-2", "ana", "notes")
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t"), max_size=30)
WORD = st.from_regex(r"[a-z][a-z0-9_]{0,11}", fullmatch=True)
SECRET = WORD.map(lambda word: "${" + word.upper() + "}")
PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | TEXT.filter(lambda text: "{" not in text),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORD, inner, max_size=2),
    max_leaves=4,
)
APPROVALS = st.one_of(
    st.booleans(),
    st.just(own.is_large),
    st.builds(
        Approval,
        expires=st.none() | st.floats(1, 100),
        on_expiry=st.sampled_from(["reject", "approve"]),
        when=st.sampled_from([None, own.is_large]),
        roles=st.lists(WORD, max_size=2).map(tuple),
        summary=st.sampled_from([None, "Pay {amount} EUR", own.is_large]),
    ),
)
STRATEGIES = st.one_of(
    st.none(),
    st.sampled_from([Full(), MessageOnly(), Reference(), own.packed]),
    st.builds(Recent, st.integers(1, 9)),
    st.builds(Summary, needs=st.lists(WORD, max_size=2).map(tuple), expires=st.none() | st.floats(1, 9)),
)
TIMEOUTS = st.none() | st.floats(0.5, 1000)


def variables(prefix: str = "") -> st.SearchStrategy[tuple[Variable, ...]]:
    one = st.builds(
        Variable,
        WORD.map(lambda word: f"{prefix}{word}"),
        st.sampled_from(["string", "integer", "number", "boolean", "array", "object"]),
        st.booleans(),
        TEXT,
    )
    return st.lists(one, max_size=3, unique_by=lambda each: each.name).map(tuple)


def options(**others: Any) -> dict[str, Any]:
    """The options of tools of every kind, as arguments of `builds`."""
    return {
        "timeout": TIMEOUTS,
        "read_only": st.none() | st.booleans(),
        "at_most_once": st.booleans(),
        "max_result": st.integers(1, 90_000),
        "approval": st.none() | APPROVALS,
        "when": st.sampled_from([None, own.is_open]),
        **others,
    }


AUTHS = st.none() | st.one_of(
    SECRET.map(Bearer),
    st.builds(Basic, WORD, SECRET),
    st.builds(ApiKey, WORD, SECRET, st.sampled_from(["header", "query"])),
)
HEADERS = st.dictionaries(st.sampled_from(["X-One", "X-Two"]), SECRET, max_size=2)
HTTP = st.builds(
    HttpTool,
    st.sampled_from(["get_order", "send", "shared"]),
    url=st.sampled_from(["https://api.example.org/orders", "http://localhost:8080/x"]),
    method=st.sampled_from(["GET", "POST", "DELETE"]),
    description=TEXT,
    parameters=variables(),
    query=st.dictionaries(st.sampled_from(["q", "page"]), PLAIN, max_size=2),
    headers=HEADERS,
    auth=AUTHS,
    select=st.sampled_from(["", "items[0]"]),
    hosts=st.sampled_from([[], ["api.example.org", "localhost"]]),
    allow_private=st.booleans(),
    idempotency_header=st.sampled_from([None, "Idempotency-Key", "X-Key"]),
    max_bytes=st.integers(1, 10**7),
    **options(),
)
SQL = st.builds(
    SqlFunction,
    st.sampled_from(["find_orders", "shared"]),
    database=st.just("${DATABASE_URL}"),
    function=st.sampled_from(["", "shop.find_orders"]),
    description=TEXT,
    parameters=variables(),
    max_rows=st.integers(1, 500),
    **options(),
)
MCP = st.builds(
    McpServer,
    st.sampled_from(["shop", "git"]),
    command=st.lists(WORD, min_size=1, max_size=3),
    env=st.dictionaries(st.sampled_from(["PATH_TO", "MODE"]), SECRET, max_size=2),
    include=st.lists(WORD, max_size=2),
    exclude=st.lists(WORD, max_size=1),
    connect_timeout=st.floats(1, 60),
    prefix=st.sampled_from([None, "", "own"]),
    **options(),
)
FUNCTIONS = st.sampled_from([own.look, own.pay_back]) | st.builds(
    lambda name, **given: tool(name=name, **given)(own.look),
    name=st.sampled_from(["look_up", "shared"]),
    description=st.none() | TEXT,
    **options(),
)
TOOLS = st.lists(HTTP | SQL | MCP | FUNCTIONS, max_size=3, unique_by=lambda each: getattr(each, "name", "look"))
SKILLS = st.lists(
    st.builds(
        Skill,
        st.sampled_from(["refunds", "greeting"]),
        description=WORD,
        instructions=TEXT.filter(str.strip),
        files=st.dictionaries(st.sampled_from(["limits.md", "a/b.txt"]), TEXT, max_size=2),
    ),
    max_size=2,
    unique_by=lambda each: each.name,
)


def expectations() -> st.SearchStrategy[Any]:
    schema = {"type": "object", "properties": {"total": {"type": "number"}}}
    whole = st.builds(
        Expects,
        output=st.sampled_from([None, schema, own.Lead]),
        criteria=st.lists(st.sampled_from(["It is polite.", own.judge]), max_size=2).map(tuple),
        timeout=st.none() | st.floats(1, 99),
    )
    return st.sampled_from([None, schema, own.Lead]) | whole.filter(lambda each: each != Expects())


EITHER: dict[str, Any] = {
    "description": TEXT,
    "instructions": TEXT,
    "strategy": STRATEGIES,
    "when": st.sampled_from([None, own.is_open]),
    "approval": st.none() | APPROVALS,
    "timeout": TIMEOUTS,
    "expects": expectations(),
    "on_accepted": st.sampled_from([None, own.judge]),
    "on_rollback": st.sampled_from([None, own.judge]),
    "on_timeout": st.sampled_from(["tell", "rollback"]),
    "on_failure": st.sampled_from(["tell", "rollback"]),
}
RESULT: dict[str, Any] = {"final": st.booleans(), "max_iterations": st.integers(1, 30)}
ID = st.sampled_from(IDS)
SOME = st.lists(ID, max_size=2, unique=True)
TRANSFER = st.builds(
    handoff,
    ID,
    name=st.sampled_from([None, "pass_on"]),
    variables=variables() | st.just(own.Lead),
    return_to=st.none() | ID,
    merge=st.sampled_from(["merge", "replace"]),
    alternatives=SOME,
    **EITHER,
)
DELEGATE = st.builds(delegate, ID, variables=variables("v_") | st.just(own.Lead), alternatives=SOME, **EITHER, **RESULT)
SPECIALIST = st.builds(specialist, among=SOME, **EITHER, **RESULT)


def _key(way: str | Handoff | Delegate) -> str:
    return way if isinstance(way, str) else f"tool {way.name}"


HANDOFFS = st.just(AUTO) | st.lists(ID | TRANSFER | DELEGATE | SPECIALIST, max_size=3, unique_by=_key)
AGENT: dict[str, Any] = {
    "name": TEXT,
    "instructions": TEXT | st.just(own.instruct),
    "model": st.sampled_from([None, "offline", ["offline", "offline"]]),
    "tools": TOOLS,
    "handoffs": HANDOFFS,
    "skills": SKILLS,
    "specialization": TEXT,
    "capabilities": st.lists(WORD, max_size=2),
    "description": TEXT,
    "examples": st.lists(TEXT, max_size=2),
    "accepts_handoffs": st.booleans(),
    "accepts": st.sampled_from([None, own.judge]),
    "requires": variables(),
    "pull": st.booleans(),
    "max_concurrency": st.none() | st.integers(1, 9),
    "output": st.sampled_from([None, own.Lead]),
    "strategy": STRATEGIES,
    "briefing": st.sampled_from([None, "Do: {your_task}", own.packed]),
    "parallel_tools": st.booleans(),
    "checks": st.lists(st.just(own.judge), max_size=1),
    "settings": st.dictionaries(st.sampled_from(["temperature", "top_p"]), st.floats(0, 1), max_size=2),
}
MEMBERS = st.tuples(
    *(st.builds(Agent, st.just(id), **AGENT) for id in IDS[:3]),
    st.builds(Person, st.just(IDS[3]), name=TEXT, description=TEXT),
    st.builds(Function, st.just(IDS[4]), st.just(own.noted), name=TEXT, description=TEXT),
)
CONDITIONS = st.just(own.is_open) | st.dictionaries(WORD, PLAIN, min_size=1, max_size=2).map(VariablesAre)
EFFECTS = st.one_of(
    st.fixed_dictionaries({"goto": ID, "message": TEXT, "approval": st.sampled_from([None, True])}),
    st.fixed_dictionaries({"deny": TEXT.filter(bool)}),
    st.fixed_dictionaries({"end": TEXT.filter(bool)}),
)
RULES = st.lists(
    st.builds(lambda if_, agents, effect: Rule(if_=if_, agents=agents, **effect), CONDITIONS, SOME, EFFECTS),
    min_size=1,
    max_size=2,
)
ROUTINGS = st.builds(
    Routing,
    learning=st.none() | st.builds(Learning, half_life=st.floats(1, 500), margin=st.floats(0, 1)),
    when_busy=st.sampled_from(["next", "queue", "reject"]),
    no_takers=st.sampled_from(["return", "queue"]),
    judge=st.booleans(),
)
LIMITS = st.one_of(
    st.just(Limits.tier("complex", timeout=9.0)),
    st.just(Limits.tier("auto")),
    st.builds(
        Limits,
        max_handoffs=st.integers(0, 20),
        max_tokens=st.none() | st.integers(1, 10**6),
        max_cost=st.none() | st.floats(0.01, 9),
        on_limit=st.sampled_from(["raise", "tell"]),
    ),
)
SETTINGS = st.fixed_dictionaries(
    {"model": st.just("offline"), "start": ID},
    optional={
        "name": WORD,
        "helper_model": st.just("offline"),
        "limits": LIMITS,
        "rules": RULES.map(tuple),
        "routing": ROUTINGS,
        "strategy": STRATEGIES.filter(bool),
        "briefing": st.just("Do: {your_task}"),
        "handoffs_enabled": st.sampled_from([False, 0.5, {"triage": 0.25, "billing": True}]),
        "fallback": st.just(True),
        "model_retries": st.integers(0, 5).filter(lambda count: count != 2),
        "tool_retries": st.integers(1, 5),
    },
)


FORMULAS = st.sampled_from(["inputs.order", "length(context.list) > `2`", own.judge])
DOES = st.one_of(
    st.fixed_dictionaries({"agent": st.sampled_from(IDS[:4])}),
    st.fixed_dictionaries({"function": st.sampled_from([IDS[4], own.noted])}),
)
READS = st.sampled_from(["", "Do {inputs.order} {{now}}", own.packed])


def _step(place: int) -> st.SearchStrategy[WorkflowStep]:
    """A step; it may come after the one before it, and then read what that one gave."""
    before = f"step-{place - 1}"
    after = {"after": st.just([before]), "when": st.just(f'steps."{before}".output'), "input": READS}
    alone = {"when": st.none() | FORMULAS, "input": READS}
    order = st.fixed_dictionaries(after) | st.fixed_dictionaries(alone) if place else st.fixed_dictionaries(alone)
    return st.builds(
        lambda does, order, **given: WorkflowStep(f"step-{place}", **does, **order, **given),
        DOES,
        order,
        context=st.dictionaries(WORD, FORMULAS, max_size=2),
        for_each=st.none() | FORMULAS,
        concurrency=st.none() | st.integers(1, 9),
        retry=st.integers(0, 3) | st.builds(Retry, st.integers(0, 3), wait=st.floats(0, 9), factor=st.floats(1, 3)),
        timeout=TIMEOUTS,
        approval=st.none() | APPROVALS,
        on_rollback=st.none() | ID | st.just(own.noted),
        name=TEXT,
    )


def _workflow(id: str) -> st.SearchStrategy[Workflow]:
    return st.builds(
        Workflow,
        st.just(id),
        name=TEXT,
        description=TEXT,
        steps=st.tuples(_step(0)) | st.tuples(_step(0), _step(1)),
        output=st.sampled_from([None, 'steps."step-0".text', own.judge]),
        limits=st.none() | LIMITS,
    )


FLOWS = ("deploy", "weekly-report")
EVENT_TASKS = st.sampled_from(["", "Look at {data.order}"])
PRIORITIES = st.sampled_from(["low", "urgent", 7])
SPECIALISTS = st.builds(Specialist, WORD, task=EVENT_TASKS)
WEBHOOKS = st.builds(
    Webhook,
    st.just("https://example.org/hook"),
    secret=st.just("") | SECRET,
    allow_private=st.booleans(),
    timeout=st.floats(0.5, 60),
)
EMITS = st.builds(Emit, st.sampled_from(["tick", "order.paid"]), PLAIN, source=st.sampled_from(["", "shop"]))
STARTS = ID | st.sampled_from(FLOWS) | SPECIALISTS | st.just(own.judge)
SUBSCRIPTIONS = st.lists(
    st.builds(
        Subscription,
        st.sampled_from(["*", "order.*", "security.alert"]),
        to=STARTS | WEBHOOKS | st.just("https://example.org/other"),
        where=st.sampled_from(["", "data.severity >= `7`"]),
        priority=PRIORITIES,
        task=EVENT_TASKS,
        name=WORD,
        tries=st.integers(1, 9),
        backoff=st.floats(0.1, 9),
        timeout=st.floats(0.1, 9),
        concurrency=st.integers(1, 9),
    ),
    max_size=2,
    unique_by=lambda each: each.id,
)
SCHEDULES = st.lists(
    st.builds(
        Schedule,
        WORD,
        cron=st.sampled_from(["0 7 * * 1", "*/5 * * * *"]),
        start=STARTS | EMITS,
        timezone=st.sampled_from(["UTC", "Europe/Berlin"]),
        missed=st.sampled_from(["run_once", "skip"]),
        overlap=st.sampled_from(["skip", "queue"]),
        task=EVENT_TASKS,
        data=PLAIN,
        priority=PRIORITIES,
    ),
    max_size=2,
    unique_by=lambda each: each.name,
)
AUTOMATION = st.fixed_dictionaries(
    {"workflows": st.tuples(*map(_workflow, FLOWS))},
    optional={"subscriptions": SUBSCRIPTIONS.map(tuple), "schedules": SCHEDULES.map(tuple)},
)
"""What starts by itself: workflows, and the subscriptions and schedules that name them."""
