"""What is said of agents later lies over what was declared, and changes nothing of it."""

from typing import Any

from changeover import Agent, Function, Person, Profile, delegate, handoff
from changeover.agent.roster import Roster, Seat, seat
from changeover.routing.profile import profile_of
from changeover.routing.registry import Registry, overruled, registry_over, roster_over

NOBODY: frozenset[str] = frozenset()


def greet(ctx: Any) -> str:
    """Says hello."""
    return "hello"


MEMBERS = {
    each.id: each
    for each in (
        Agent("desk", description="Greets."),
        Agent("billing", description="Bills.", capabilities=["bills"], accepts_handoffs=False, max_concurrency=2),
        Agent("lists", handoffs=["billing", "ana", handoff("billing"), handoff("ana"), delegate("billing")]),
        Function("greeter", greet),
        Person("ana"),
    )
}
REGISTRY = Registry(profile_of(member) for member in MEMBERS.values())
ROSTER = Roster(
    {id: seat(each, MEMBERS, (), True) if isinstance(each, Agent) else each for id, each in MEMBERS.items()}, "desk"
)


def names(roster: Roster, agent: str) -> list[str]:
    found = roster.seats[agent]
    assert isinstance(found, Seat)
    return [definition.name for definition in found.definitions]


def told(roster: Roster, agent: str = "desk") -> str:
    found = roster.seats[agent]
    assert isinstance(found, Seat)
    return found.definitions[0].description


def test_where_nothing_is_said_everything_is_as_declared():
    assert roster_over(ROSTER, {}, NOBODY) is ROSTER
    assert registry_over(REGISTRY, {}, NOBODY) is REGISTRY


def test_a_profile_says_what_the_code_leaves_open_and_the_code_the_rest():
    said = {"billing": Profile("billing", description="Refunds.", capabilities=("refunds",), examples=("Twice!",))}
    found = registry_over(REGISTRY, said, NOBODY).get("billing")
    wanted = Profile("billing", "", "Bills.", "", ("bills",), ("Twice!",), accepts_handoffs=False, max_concurrency=2)
    assert found == wanted
    assert overruled(REGISTRY, said) == {"billing": ["description", "capabilities"]}
    assert overruled(REGISTRY, {"billing": Profile("billing", description="Bills.", examples=("Twice!",))}) == {}


def test_models_are_told_what_is_said_of_agents_functions_and_people():
    said = {
        "billing": Profile("billing", description="Refunds.", capabilities=("refunds",)),
        "greeter": Profile("greeter", description="Bows."),
        "ana": Profile("ana", capabilities=("patience",)),
        "lists": Profile("lists", description="Lists."),
    }
    words = told(roster_over(ROSTER, said, NOBODY)).splitlines()[1:]
    assert words == [
        "- desk: Greets.",
        "- billing: Bills.; capabilities: bills",
        "- lists: Lists.",
        "- greeter: Bows.",
        "- ana: a person",
    ]
    assert "- billing: Bills.; capabilities: bills" in told(ROSTER)


def test_how_much_somebody_does_at_once_is_as_it_is_said_unless_the_code_says_it():
    kept = roster_over(ROSTER, {"billing": Profile("billing", max_concurrency=9)}, NOBODY).seats["billing"]
    assert isinstance(kept, Seat)
    assert kept.agent.max_concurrency == 2
    bound = roster_over(ROSTER, {"desk": Profile("desk", max_concurrency=1)}, NOBODY).seats["desk"]
    assert isinstance(bound, Seat)
    assert (bound.agent.max_concurrency, bound.asks) == (1, True)


def test_ways_that_lead_to_nobody_are_not_shown_and_still_known():
    absent = roster_over(ROSTER, {}, frozenset({"billing", "stranger"}))
    assert (absent.absent, absent.present) == (frozenset({"billing"}), ("desk", "lists", "greeter", "ana"))
    assert names(absent, "lists") == ["handoff", "handoff_to_ana"]
    found = absent.seats["lists"]
    assert isinstance(found, Seat)
    assert list(found.moves) == ["handoff", "handoff_to_billing", "handoff_to_ana", "delegate_to_billing"]
    assert (found.transfers, found.receivers) == (("ana",), ("ana",))
    assert names(roster_over(ROSTER, {}, frozenset({"billing", "ana"})), "lists") == []
    assert names(ROSTER, "lists") == list(found.moves)


def test_who_can_name_only_itself_is_not_shown_how():
    others = frozenset(MEMBERS) - {"desk"}
    assert names(roster_over(ROSTER, {}, others), "desk") == []
    assert names(roster_over(ROSTER, {}, others - {"ana"}), "desk") == ["handoff"]


def test_somebody_who_is_absent_is_not_available_and_still_listed():
    found = registry_over(REGISTRY, {}, frozenset({"ana", "stranger"}))
    assert "ana" in found
    assert "ana" not in [profile.id for profile in found.available]
    assert "stranger" not in found


def test_words_tell_apart_who_is_absent_and_who_never_was():
    absent = roster_over(ROSTER, {}, frozenset({"billing"}))
    assert absent.missing("billing") == "'billing' is not available now"
    assert absent.missing("stranger") == "no agent is called 'stranger'"
