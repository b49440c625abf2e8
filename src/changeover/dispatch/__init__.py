"""The event bus at work: publishing, handing events to subscribers, and starting what schedules say."""
