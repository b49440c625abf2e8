"""Workflows: steps in an order that is known beforehand, whose decisions come from a definition instead of a model."""

from changeover.facts import WorkflowRun
from changeover.workflows.workflow import Retry, Workflow, WorkflowStep

__all__ = ["Retry", "Workflow", "WorkflowRun", "WorkflowStep"]
