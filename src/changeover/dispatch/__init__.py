"""The event bus at work: it publishes events, hands them to subscribers, and starts the work of schedules."""
