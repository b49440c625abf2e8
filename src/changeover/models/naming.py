"""The names of models: what a name stands for, or what is missing so that it could."""

from __future__ import annotations

import os
import re
from functools import partial
from importlib import import_module
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider

from changeover.errors import MisconfiguredError
from changeover.models.provider import PydanticAIModel

EXTRAS = ("openai", "anthropic", "google", "bedrock")
GROUP = re.compile(r"pydantic-ai-slim\[([\w-]+)\]")
VARIABLE = re.compile(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+)`")
HINT = re.compile(r"Did you mean '([^']+)'")


def named(name: str) -> PydanticAIModel:
    """The model of this name; raises MisconfiguredError with what has to be installed, set or written instead."""
    try:
        return PydanticAIModel(partial(_make, name))
    except ImportError as error:
        fault = f"whose provider is not installed: {_install(str(error))}"
    except UserError as error:
        fault = _missing(str(error))
    except Exception as error:
        # Every provider's client has errors of its own for what it lacks.
        fault = f"which cannot be used: {(str(error) or type(error).__name__).splitlines()[0]}"
    raise MisconfiguredError(f"model={name!r}, {fault}")


def _make(name: str) -> Model:
    if name.startswith("bedrock:"):
        return infer_model(name, _bedrock)
    return infer_model(name)


def _bedrock(_: str) -> Provider[Any]:
    """Its client cannot be told per request that retries are not its business."""
    from pydantic_ai.providers.bedrock import BedrockProvider

    # By name: neither has types, and neither is there unless the provider is, which says so better than they would.
    boto3, config = import_module("boto3"), import_module("botocore.config")
    if not (region := boto3.Session().region_name):
        raise UserError("`AWS_DEFAULT_REGION`")
    # As long as pydantic-ai would wait.
    once = config.Config(retries={"total_max_attempts": 1}, read_timeout=float(os.getenv("AWS_READ_TIMEOUT", "300")))
    return BedrockProvider(bedrock_client=boto3.client("bedrock-runtime", region_name=region, config=once))


def _install(error: str) -> str:
    group = GROUP.search(error)
    if group is None:
        return error
    package = "changeover" if group[1] in EXTRAS else "pydantic-ai-slim"
    return f"pip install '{package}[{group[1]}]'"


def _missing(error: str) -> str:
    if variables := VARIABLE.findall(error):
        return f"which needs the environment variable {' or '.join(dict.fromkeys(variables))}"
    if error.startswith("Unknown model"):
        hint = HINT.search(error)
        meant = f"did you mean {hint[1]!r}?" if hint else "write provider:model, such as 'openai:gpt-5'"
        return f"which no provider is known by; {meant}"
    return f"which cannot be used: {error}"
