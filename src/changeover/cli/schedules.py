"""Command `schedules`: list and show schedules with their next runs; run, pause and resume them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from changeover.cli.bus import event_data, on_bus
from changeover.cli.exits import errors_reported, say
from changeover.cli.options import DecisionStoreOption, JsonOption, TeamOption, nothing_declared
from changeover.cli.terminal.help import App

if TYPE_CHECKING:
    from changeover.bus.views import ScheduleView

app = App("List and show schedules with their next runs; run, pause and resume them.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the schedule.")]


@app.command("list")
def list_schedules(team: TeamOption = None, store: DecisionStoreOption = None, as_json: JsonOption = False) -> None:
    """List schedules, each with its next run."""
    from changeover.cli.terminal.render import print_json, print_table

    with errors_reported():
        found = on_bus(team, store, lambda _, schedules: schedules.all())
    if as_json:
        print_json([_data(each) for each in found])
    else:
        print_table([_row(each) for each in found], nothing_declared("schedules", team, store))


@app.command("show")
def show_schedule(
    name: NameArgument, team: TeamOption = None, store: DecisionStoreOption = None, as_json: JsonOption = False
) -> None:
    """Show a schedule: what it starts, its next runs, and the outcome of its last run."""
    from changeover.cli.terminal.render import print_json, print_record, when

    with errors_reported():
        found = on_bus(team, store, lambda _, schedules: schedules.one(name))
    if as_json:
        print_json(_data(found))
        return
    told = ("name", "cron", "timezone", "missed", "overlap", "task")
    last = ", ".join(f"{each.state} {each.started}".strip() for each in found.last.deliveries) if found.last else ""
    print_record(
        {
            **{each: str(getattr(found, each)) for each in told},
            "starts": f"{found.kind} {found.start}",
            "priority": str(found.priority),
            "state": "paused" if found.paused else "",
            "next runs": "\n".join(map(when, found.next_runs)),
            "last run": f"{when(found.last.at)} {last}".strip() if found.last else "",
        }
    )


@app.command()
def run(name: NameArgument, team: TeamOption = None, store: DecisionStoreOption = None) -> None:
    """Start a schedule now, also while it is paused, and print the id of its event.

    Processes that serve the team do the work: `changeover serve` or `changeover worker`.
    """
    with errors_reported():
        say(on_bus(team, store, lambda _, schedules: schedules.run(name)))


@app.command()
def pause(name: NameArgument, team: TeamOption = None, store: DecisionStoreOption = None) -> None:
    """Pause a schedule: nothing starts at its due times, in all processes."""
    with errors_reported():
        on_bus(team, store, lambda _, schedules: schedules.pause(name))
    say(f"{name} is paused; to change that: changeover schedules resume {name}")


@app.command()
def resume(name: NameArgument, team: TeamOption = None, store: DecisionStoreOption = None) -> None:
    """Resume a schedule; runs that were due while it was paused are not made up for."""
    with errors_reported():
        on_bus(team, store, lambda _, schedules: schedules.resume(name))
    say(f"{name} runs again at its due times")


def _data(schedule: ScheduleView) -> dict[str, Any]:
    import msgspec

    from changeover.cli.terminal.render import json_time

    return {
        **msgspec.to_builtins(schedule),
        "next_runs": [json_time(each) for each in schedule.next_runs],
        "last": event_data(schedule.last) if schedule.last else None,
    }


def _row(schedule: ScheduleView) -> dict[str, str]:
    from changeover.cli.terminal.render import when

    return {
        "schedule": schedule.name,
        "cron": schedule.cron,
        "time zone": schedule.timezone,
        "next run": "paused" if schedule.paused else when(next(iter(schedule.next_runs), None)),
        "starts": f"{schedule.kind} {schedule.start}",
    }
