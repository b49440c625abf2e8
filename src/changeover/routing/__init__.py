"""Routing: finds the agent that fits a task, and learns from outcomes."""
