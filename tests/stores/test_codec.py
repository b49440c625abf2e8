"""Events as text: what an older or newer version wrote is read as far as it can be."""

import pytest

from changeover.errors import StoreUnavailable
from changeover.facts import Mode
from changeover.faults import LimitFault
from changeover.messages import Call
from changeover.relay.events import HandoffOffered, ModelReplied, RunFailed, Started, Unreadable, UserSpoke
from changeover.stores.codec import decode, encode

EVENTS = (
    Started("r", "p", 2),
    UserSpoke("hi", "ana", context={"a": [1, {"b": None}]}),
    ModelReplied("front", 2, "text", "thought", (Call("x", "look", {"n": 1.5}), Call("y", "look", {}, "{broken"))),
    HandoffOffered("3.0", 2, "front", "billing", mode=Mode.DELEGATE, dropped=("_handoff_from",)),
    RunFailed(1, LimitFault("max_turns", 3)),
)


def test_events_come_back_as_they_were():
    body, events = encode(EVENTS)
    assert decode(body) == events == EVENTS


def test_what_a_newer_version_wrote_is_kept_raw_and_the_rest_is_read():
    body = (
        '[{"event":"started","root":"r"},{"event":"teleported","to":["x",{"y":1}]},{"event":"user_spoke","text":"hi"}]'
    )
    events = decode(body)
    assert events == (
        Started("r"),
        Unreadable("teleported", b'{"event":"teleported","to":["x",{"y":1}]}'),
        UserSpoke("hi"),
    )
    assert encode(events)[0] == body


def test_a_known_event_with_fields_of_the_future_is_read_without_them():
    assert decode('[{"event":"started","root":"r","planet":"mars"}]') == (Started("r"),)


def test_a_known_event_with_values_of_the_future_is_kept_raw():
    raw = b'{"event":"run_failed","run":1,"fault":{"type":"gravity"}}'
    assert decode(f"[{raw.decode()}]") == (Unreadable("run_failed", raw),)


@pytest.mark.parametrize("body", ["", "[{", "\x00"])
def test_what_is_no_json_is_damage(body: str):
    with pytest.raises(StoreUnavailable, match="damaged"):
        decode(body)


def test_half_a_surrogate_pair_is_replaced_wherever_it_stands():
    broken = ModelReplied("front", 2, "a\ud83d", calls=(Call("x", "look", {"k\udc00": ["v\ud800"]}),))
    body, events = encode((broken,))
    assert events == (ModelReplied("front", 2, "a?", calls=(Call("x", "look", {"k?": ["v?"]}),)),)
    assert decode(body) == events


def test_an_event_is_compact():
    assert encode((UserSpoke("hi"),))[0] == '[{"event":"user_spoke","text":"hi"}]'
