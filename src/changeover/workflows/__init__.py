"""Workflows: steps in an order that is known beforehand, whose decisions come from a definition instead of a model."""

from changeover.facts import StepReport, StepStatus, WorkflowRun
from changeover.workflows.workflow import Retry, Workflow, WorkflowStep

__all__ = ["Retry", "StepReport", "StepStatus", "Workflow", "WorkflowRun", "WorkflowStep"]
