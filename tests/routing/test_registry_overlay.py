"""What is said of agents later lies over what was declared, and changes nothing of it."""

from typing import Any

from changeover import Agent, Function, Person, delegate, handoff
from changeover.agent.roster import Roster, Seat, seat
from changeover.routing import Profile
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


def test_without_registered_profiles_everything_is_as_declared():
    assert roster_over(ROSTER, {}, NOBODY) is ROSTER
    assert registry_over(REGISTRY, {}, NOBODY) is REGISTRY


def test_a_registered_profile_fills_in_what_the_declaration_leaves_empty():
    said = {"billing": Profile("billing", description="Refunds.", capabilities=("refunds",), examples=("Twice!",))}
    found = registry_over(REGISTRY, said, NOBODY).get("billing")
    wanted = Profile("billing", "", "Bills.", "", ("bills",), ("Twice!",), accepts_handoffs=False, max_concurrency=2)
    assert found == wanted
    assert overruled(REGISTRY, said) == {"billing": ["description", "capabilities"]}
    assert overruled(REGISTRY, {"billing": Profile("billing", description="Bills.", examples=("Twice!",))}) == {}


def test_models_read_the_registered_descriptions_of_all_kinds_of_members():
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


def test_a_registered_max_concurrency_holds_unless_one_is_declared():
    kept = roster_over(ROSTER, {"billing": Profile("billing", max_concurrency=9)}, NOBODY).seats["billing"]
    assert isinstance(kept, Seat)
    assert kept.agent.max_concurrency == 2
    bound = roster_over(ROSTER, {"desk": Profile("desk", max_concurrency=1)}, NOBODY).seats["desk"]
    assert isinstance(bound, Seat)
    assert (bound.agent.max_concurrency, bound.asks) == (1, True)


def test_handoffs_to_absent_members_are_not_shown_and_still_known():
    absent = roster_over(ROSTER, {}, frozenset({"billing", "stranger"}))
    assert (absent.absent, absent.present) == (frozenset({"billing"}), ("desk", "lists", "greeter", "ana"))
    assert names(absent, "lists") == ["handoff", "handoff_to_ana"]
    found = absent.seats["lists"]
    assert isinstance(found, Seat)
    assert list(found.moves) == ["handoff", "handoff_to_billing", "handoff_to_ana", "delegate_to_billing"]
    assert (found.transfers, found.receivers) == (("ana",), ("ana",))
    assert names(roster_over(ROSTER, {}, frozenset({"billing", "ana"})), "lists") == []
    assert names(ROSTER, "lists") == list(found.moves)


def test_a_generic_handoff_to_oneself_only_is_not_shown():
    others = frozenset(MEMBERS) - {"desk"}
    assert names(roster_over(ROSTER, {}, others), "desk") == []
    assert names(roster_over(ROSTER, {}, others - {"ana"}), "desk") == ["handoff"]


def test_an_absent_member_is_not_available_and_still_listed():
    found = registry_over(REGISTRY, {}, frozenset({"ana", "stranger"}))
    assert "ana" in found
    assert "ana" not in [profile.id for profile in found.available]
    assert "stranger" not in found


def test_the_texts_for_absent_and_for_unknown_members_differ():
    absent = roster_over(ROSTER, {}, frozenset({"billing"}))
    assert absent.missing("billing") == "'billing' is not available now"
    assert absent.missing("stranger") == "no agent is called 'stranger'"
