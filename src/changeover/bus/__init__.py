"""The event bus: events, the subscriptions that start work when they are published, and schedules.

`Team(subscriptions=[Subscription(…)], schedules=[Schedule(…)])` declares them; `team.bus` publishes events and shows
their deliveries. This room holds data: it has no clock and no network.
"""

from changeover.bus.delivery import Backlog, Delivery
from changeover.bus.event import BusEvent
from changeover.bus.schedule import Emit, Schedule
from changeover.bus.subscription import Specialist, Subscription, Webhook

__all__ = ["Backlog", "BusEvent", "Delivery", "Emit", "Schedule", "Specialist", "Subscription", "Webhook"]
