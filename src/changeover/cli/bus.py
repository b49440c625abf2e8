"""Command `bus`: publish events, list them, their deliveries and subscribers, and send dead letters again."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from changeover.cli.exits import Mistake, errors_reported, one_line, say, tell
from changeover.cli.options import (
    DecisionStoreOption,
    IdArgument,
    JsonOption,
    LimitOption,
    TeamOption,
    nothing_declared,
    server_of,
    store_of,
)
from changeover.cli.terminal.help import App

if TYPE_CHECKING:
    from changeover.bus.views import BusCalls, DeadLetter, DeliveryView, EventView, ScheduleCalls, SubscriberView

app = App("Publish events, list them and their subscribers, and send dead letters again.")

T = TypeVar("T")


@app.command("list")
def list_events(
    type: Annotated[str, typer.Option("--type", metavar="TYPE", help="Only events of this type.")] = "",
    dead: Annotated[bool, typer.Option("--dead", help="Only dead letters: deliveries that failed for good.")] = False,
    *,
    limit: LimitOption = 20,
    team: TeamOption = None,
    store: DecisionStoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List events, newest first, with the states of their deliveries."""
    from changeover.cli.terminal.render import print_list

    with errors_reported():
        if dead:
            letters = on_bus(team, store, lambda bus, _: bus.dead_letters(limit + 1))
            kept = [each for each in letters if not type or each.type == type]
            print_list(kept, limit, as_json, _letter_row, "no dead letters")
            return
        events = on_bus(team, store, lambda bus, _: bus.events(type, "", limit + 1))
        if as_json:
            from changeover.cli.terminal.render import print_json, warn_of_more

            print_json([event_data(each) for each in events[:limit]])
            warn_of_more(events, limit)
            return
        print_list(events, limit, False, _event_row, "no events", spare=("source",))


@app.command("show")
def show_event(
    id: IdArgument, team: TeamOption = None, store: DecisionStoreOption = None, as_json: JsonOption = False
) -> None:
    """Show an event: its data, and what each subscriber did with it."""
    from changeover.cli.terminal.render import print_json, print_record, print_table, when, without_empty

    with errors_reported():
        event = on_bus(team, store, lambda bus, _: _found(bus, id))
    if as_json:
        print_json(event_data(event))
        return
    told = {name: getattr(event, name) for name in ("id", "type", "source", "subject", "key")}
    print_record({**told, "at": when(event.at), "data": json.dumps(event.data, ensure_ascii=False)})
    rows = [
        {
            "subscriber": each.subscriber,
            "state": each.state,
            "attempts": str(each.attempts),
            "started": each.started,
            "next try": when(each.due_at) if each.state == "waiting" and each.attempts else "",
            "error": one_line(each.error),
        }
        for each in event.deliveries
    ]
    print_table(without_empty(rows), "no subscriber wanted it")


@app.command()
def subscribers(team: TeamOption = None, store: DecisionStoreOption = None, as_json: JsonOption = False) -> None:
    """List who gets which events, how many wait for each, since when, and how many failed for good."""
    from changeover.cli.terminal.render import as_data, print_json, print_table, without_empty

    with errors_reported():
        found = on_bus(team, store, lambda bus, _: bus.subscribers())
    if as_json:
        print_json([as_data(each) for each in found])
        return
    nothing = nothing_declared("subscribers", team, store, "bus")
    print_table(without_empty([_subscriber_row(each) for each in found]), nothing, spare=("since",))


@app.command()
def publish(  # noqa: PLR0913 - each is a declared option
    type: Annotated[str, typer.Argument(metavar="TYPE", help="What happened, such as security.alert.")],
    data: Annotated[str, typer.Option("--data", metavar="JSON", help="Its data; - reads standard input.")] = "",
    source: Annotated[
        str,
        typer.Option(
            "--source", metavar="NAME", help="Where it happened; a subscriber gets the events of a source in order."
        ),
    ] = "",
    subject: Annotated[str, typer.Option("--subject", metavar="TEXT", help="What in the source it is about.")] = "",
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="With the same key it is published once.")] = "",
    *,
    team: TeamOption = None,
    store: DecisionStoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish an event, and print its id.

    Processes that serve the team hand it to the subscribers: `changeover serve` or `changeover worker`.
    """
    with errors_reported():
        value = _value(data)

        async def published(bus: BusCalls, _: ScheduleCalls) -> EventView:
            return await _found(bus, await bus.publish(type, value, key, source, subject))

        event = on_bus(team, store, published)
    if as_json:
        from changeover.cli.terminal.render import print_json

        print_json(event_data(event))
        return
    say(event.id)
    names = ", ".join(each.subscriber for each in event.deliveries)
    tell(f"for: {names}" if names else "no subscriber wants it")


@app.command()
def retry(
    id: IdArgument,
    subscriber: Annotated[
        str, typer.Option("--subscriber", metavar="NAME", help="Only to this subscriber. Default: all.")
    ] = "",
    team: TeamOption = None,
    store: DecisionStoreOption = None,
) -> None:
    """Send the dead letters of an event again, at once and with their attempts reset."""
    with errors_reported():

        async def resent(bus: BusCalls, _: ScheduleCalls) -> int:
            await _found(bus, id)
            return await bus.resend(id, subscriber)

        if not (count := on_bus(team, store, resent)):
            whose = f" to {subscriber!r}" if subscriber else ""
            raise Mistake(f"{id} has no dead letter{whose}; see: changeover bus show {id}")
    say(f"{count} {'delivery' if count == 1 else 'deliveries'} of {id} begin{'s' if count == 1 else ''} again")


def on_bus(team: str | None, store: str | None, work: Callable[[BusCalls, ScheduleCalls], Awaitable[T]]) -> T:
    """Do the work with the bus and the schedules of a server, or of a team on its store, by default the team that the
    store declares. The team is not opened for work: this process hands out no events."""
    from changeover.cli.options import on_server

    if (server := server_of(store)) is not None:
        return on_server(server, lambda remote: work(remote.bus, remote.schedules))
    from changeover.cli.teams import declared_team, working_team
    from changeover.dispatch.console import BusConsole, ScheduleConsole

    found = working_team(team, store)[0] if team else declared_team(store_of(store), agents=False)

    async def done() -> T:
        try:
            world = found.engine.world
            return await work(BusConsole(found.bus, world), ScheduleConsole(found.schedules, found.bus, world))
        finally:
            await found.close()

    return asyncio.run(done())


async def _found(bus: BusCalls, id: str) -> EventView:
    if (event := await bus.event(id)) is None:
        raise Mistake(f"there is no event {id!r}; see: changeover bus list")
    return event


def _value(text: str) -> Any:
    """The data of an event from JSON; None without a text."""
    raw = sys.stdin.read() if text == "-" else text
    if not raw.strip():
        return None
    try:
        return json.loads(raw)
    except ValueError as error:
        raise Mistake(f"--data is not JSON ({error}); a text needs quotes: '\"hello\"'") from None


def event_data(event: EventView) -> dict[str, Any]:
    """An event for JSON."""
    from changeover.cli.terminal.render import as_data

    return {**as_data(event), "deliveries": [as_data(each) for each in event.deliveries]}


def _event_row(event: EventView) -> dict[str, str]:
    from changeover.cli.terminal.render import when

    ends = Counter(map(_end_of, event.deliveries))
    return {
        "event": event.id,
        "at": when(event.at),
        "type": event.type,
        "source": event.source,
        "deliveries": ", ".join(f"{count} {end}" for end, count in ends.items()) or "no subscriber wanted it",
    }


def _end_of(delivery: DeliveryView) -> str:
    return delivery.state if delivery.attempts < 2 else f"{delivery.state} after {delivery.attempts} attempts"


def _letter_row(letter: DeadLetter) -> dict[str, str]:
    return {
        "event": letter.event,
        "type": letter.type,
        "subscriber": letter.subscriber,
        "attempts": str(letter.attempts),
        "error": one_line(letter.error),
    }


def _subscriber_row(subscriber: SubscriberView) -> dict[str, str]:
    from changeover.cli.terminal.render import when

    return {
        "subscriber": subscriber.id,
        "events": subscriber.types,
        "waiting": str(subscriber.waiting),
        "since": when(subscriber.oldest_at),
        "dead": str(subscriber.dead),
        "starts": f"{subscriber.kind} {subscriber.to}",
    }
