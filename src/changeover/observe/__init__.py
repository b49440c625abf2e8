"""Observation of teams: hooks, metrics, experiment results, drawings."""
