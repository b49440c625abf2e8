"""Profiles, and the registry that keeps them."""

import msgspec
import pytest

from changeover import Agent, Function, Person
from changeover.errors import UnknownAgentError
from changeover.routing.broker import recommend
from changeover.routing.profile import Profile, profile_of
from changeover.routing.registry import Registry
from changeover.routing.vectors import MeaningMatch

PY = Profile("py", description="Mends clocks.", capabilities=("Python", "unit-tests"))
DB = Profile("db", description="Asks databases.", specialization="data analysis", capabilities=("sql", "python"))


def ids(profiles) -> list[str]:
    return [profile.id for profile in profiles]


def test_the_profile_of_an_agent_says_what_was_declared():
    agent = Agent(
        "db",
        name="Dora",
        instructions="Keep this to yourself.",
        description="Asks databases.",
        specialization="data",
        capabilities=["sql"],
        examples=["How many?"],
        accepts_handoffs=False,
        max_concurrency=2,
    )
    assert profile_of(agent) == Profile(
        "db", "Dora", "Asks databases.", "data", ("sql",), ("How many?",), accepts_handoffs=False, max_concurrency=2
    )


def test_a_function_and_a_person_have_profiles_too():
    def add(ctx):
        """Adds numbers."""

    assert profile_of(Function("sum", add)) == Profile("sum", description="Adds numbers.")
    assert profile_of(Person("ana", name="Ana")) == Profile("ana", "Ana", "Ana, a person")


def test_a_profile_is_stored_as_json_and_comes_back_the_same():
    for profile in (DB, Profile("x"), Profile("y", examples=("a", "b"), enabled=False, max_concurrency=1)):
        assert msgspec.json.decode(msgspec.json.encode(profile), type=Profile) == profile


@pytest.mark.parametrize("asked", ["unit tests", "UNIT_TESTS", "Unit-Tests", "unittests"])
def test_capabilities_are_the_same_whatever_their_case_hyphens_underscores_and_spaces(asked: str):
    assert ids(Registry([PY, DB]).holding(asked)) == ["py"]


def test_a_specialization_is_found_like_a_capability():
    assert ids(Registry([PY, DB]).holding("data-analysis")) == ["db"]


def test_only_agents_with_all_capabilities_are_found():
    registry = Registry([PY, DB])
    assert ids(registry.holding("python")) == ["db", "py"]
    assert ids(registry.holding("python", "sql")) == ["db"]
    assert registry.holding("python", "cobol") == ()
    assert registry.holding("unit tests", "sql") == ()
    assert registry.holding("") == ()


def test_a_change_gives_another_registry_and_leaves_the_first_as_it_was():
    first = Registry([PY])
    second = first.with_profile(DB)
    assert (ids(first), ids(second), ids(second.without("py"))) == (["py"], ["db", "py"], ["db"])
    assert (len(second), "db" in first, "db" in second, first.get("db"), second.get("db")) == (2, False, True, None, DB)
    assert first.holding("sql") == ()
    assert [each.agent for each in recommend(first, "ask the databases")] == []


def test_a_profile_takes_the_place_of_one_with_the_same_id():
    registry = Registry([PY, DB])
    assert recommend(registry, "clocks")[0].agent == "py"
    changed = registry.with_profile(Profile("py", description="Bakes bread."))
    assert recommend(changed, "clocks") == ()
    assert recommend(changed, "bread")[0].agent == "py"
    assert changed.holding("unit tests") == ()


def test_a_disabled_agent_is_kept_and_not_available_until_it_is_enabled():
    registry = Registry([PY, DB]).disabled("py")
    assert (ids(registry), ids(registry.available), ids(registry.holding("python"))) == (["db", "py"], ["db"], ["db"])
    assert recommend(registry, "mend the clocks") == ()
    assert ids(registry.enabled("py").available) == ["db", "py"]
    assert recommend(registry.enabled("py"), "mend the clocks")[0].agent == "py"


def test_an_agent_that_accepts_no_handoffs_is_not_available():
    assert Registry([Profile("shy", capabilities=("sql",), accepts_handoffs=False)]).holding("sql") == ()


@pytest.mark.parametrize("change", [Registry.without, Registry.enabled, Registry.disabled])
def test_changing_an_unknown_agent_raises(change):
    with pytest.raises(UnknownAgentError, match=r"no agent is called 'dba'; did you mean 'db'\? This team has: db, py"):
        change(Registry([PY, DB]), "dba")


def test_the_text_match_is_built_once_and_reads_only_changes():
    read: list[str] = []

    def embed(texts: list[str]) -> list[list[float]]:
        read.extend(text.split()[0] for text in texts)
        return [[1.0] for _ in texts]

    registry = Registry([PY], MeaningMatch(embed)).with_profile(DB)
    assert read == []
    recommend(registry, "first")
    recommend(registry, "second")
    recommend(registry.with_profile(Profile("new")).disabled("py"), "third")
    assert read == ["db", "py", "first", "second", "new", "third"]
