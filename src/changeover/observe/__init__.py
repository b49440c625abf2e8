"""Who watches: hooks, and later telemetry, metrics and drawings."""
