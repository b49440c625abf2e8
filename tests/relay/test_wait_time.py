"""The time that a run and its delegates spent waiting for people."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from changeover.facts import Span, Spent
from changeover.relay.wait_time import WaitTime

HOURS = st.integers(0, 24)
SPANS = st.lists(st.tuples(HOURS, HOURS).map(lambda pair: (float(min(pair)), float(max(pair)))))


def spent(*waits: Span) -> Spent:
    """What a delegate reports that waited at these times."""
    waiting = waited(waits)
    return Spent(waited=waiting.seconds, waits=waiting.spans)


def waited(waits: Iterable[Span]) -> WaitTime:
    waiting = WaitTime()
    for start, end in waits:
        waiting.rest(start, end)
    return waiting


@given(SPANS, SPANS)
def test_an_hour_counts_once_however_many_people_are_awaited_in_it(own: list[Span], below: list[Span]):
    waiting = waited(own)
    waiting.take_back(spent(*below))
    covered = [hour for hour in range(24) if any(start <= hour < end for start, end in own + below)]
    assert waiting.seconds == len(covered)


def test_what_is_awaited_now_counts_from_the_first_open_request():
    waiting = WaitTime()
    waiting.ask(10)
    waiting.ask(15)
    waiting.hear(20)
    assert (waiting.until(30).seconds, waiting.seconds) == (20, 0)
    waiting.take_back(spent((5, 12), (28, 40)))
    assert waiting.until(30).seconds == 35


def test_a_delegate_that_does_not_say_when_it_waited_is_counted_as_it_was():
    waiting = waited([(0, 10)])
    waiting.take_back(Spent(waited=7.0))
    assert (waiting.seconds, waiting.spans) == (17, ((0, 10),))
    above = WaitTime()
    above.take_back(Spent(waited=waiting.seconds, waits=waiting.spans))
    assert above.seconds == 17
