"""The event bus as data: events, subscriptions, schedules, deliveries and their forms outside; no clock, no network."""
