"""Observation of teams: hooks, logs, telemetry, metrics, experiment results, drawings."""
