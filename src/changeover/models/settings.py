"""What Agent(settings=…) may say to a model, checked before anything runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

OURS = {
    "max_retries": "retries are made by Changeover itself, so that they are recorded",
    "first_event_timeout": "use 'timeout' or 'request_timeout'",
}
"""Settings that their Model layer leaves to whoever calls it, and that we do not take."""


def setting_faults(model: Model, settings: Mapping[str, Any]) -> list[str]:
    """Unknown keys, and values that cannot be."""
    return [*_unknown(model, settings), *_wrong(settings)]


def _unknown(model: Model, settings: Mapping[str, Any]) -> Iterator[str]:
    known = _known(model) - OURS.keys()
    for key in settings:
        if key in OURS:
            yield f"the setting {key!r}, which is not for agents: {OURS[key]}"
        elif key not in known:
            close = get_close_matches(str(key), known, 1)
            common = ", ".join(sorted(ModelSettings.__annotations__.keys() - OURS.keys()))
            meant = f"did you mean {close[0]!r}?" if close else f"there are: {common}"
            yield f"the setting {key!r}, which {model.model_id} does not know; {meant}"


def _wrong(settings: Mapping[str, Any]) -> Iterator[str]:
    try:
        TypeAdapter(ModelSettings).validate_python(dict(settings), strict=True)
    except ValidationError as error:
        for key in dict.fromkeys(each["loc"][0] for each in error.errors()):
            message = next(each["msg"] for each in error.errors() if each["loc"][0] == key)
            yield f"the setting {key!r} with the value {settings[str(key)]!r}: {message}"


def _known(model: Model) -> set[str]:
    """The settings of all models, and those that its provider adds: they stand beside the model's class."""
    known = set(ModelSettings.__annotations__)
    for kind in type(model).__mro__:
        for name, own in vars(sys.modules[kind.__module__]).items():
            if name.endswith("ModelSettings"):
                known |= set(getattr(own, "__annotations__", ()))
    return known
