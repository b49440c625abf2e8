"""Resolver: turns the `model=` of a declaration into a Model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from changeover.errors import MisconfiguredError
from changeover.models.wrappers import FallbackModel, LimitedModel, TypedModel, setting_faults
from changeover.relay.ports.world import Model

NO_MODEL = "no model; give it one with Agent(model=…), or all of them with Team(model=…)"


class Resolver:
    """The models of one team. A model that is given twice is made once, so that connections and limits are shared."""

    def __init__(self) -> None:
        self._made: dict[str | int, tuple[Any, Model | MisconfiguredError]] = {}

    def resolve(self, given: Any, settings: Mapping[str, Any], output: Any) -> Model:
        """The model of an agent with these settings and output type; raises MisconfiguredError with all faults."""
        model = self._model(given)
        if not isinstance(settings, Mapping):
            raise MisconfiguredError(f"settings={settings!r}; give a dict, such as {{'temperature': 0}}")
        if settings and (faults := setting_faults(model, settings)):
            raise MisconfiguredError(*faults)
        return model if output is None or output is str else TypedModel(model, output)

    def _model(self, given: Any) -> Model:
        made = self._made_once(given)
        if isinstance(made, MisconfiguredError):
            raise made
        return made

    def _made_once(self, given: Any) -> Model | MisconfiguredError:
        # Keeps a reference to the object: the id of a deleted object may be used again.
        key = given if isinstance(given, str) else id(given)
        if key not in self._made:
            try:
                self._made[key] = (given, self._make(given))
            except MisconfiguredError as error:
                self._made[key] = (given, error)
        return self._made[key][1]

    def _make(self, given: Any) -> Model:
        match given:
            case None | [] | ():
                raise MisconfiguredError(NO_MODEL)
            case str():
                return _named(given)
            case list() | tuple():
                return self._several(given)
            case LimitedModel():
                return given.around(self._model(given.model))
            case _ if _is_pydantic_ai(given):
                from changeover.models.provider import PydanticAIModel

                return PydanticAIModel(lambda: given)
            case _:
                return _with_port(given)

    def _several(self, given: Sequence[Any]) -> Model:
        made = [self._made_once(each) for each in given]
        if faults := [fault for each in made if isinstance(each, MisconfiguredError) for fault in each.faults]:
            raise MisconfiguredError(*faults)
        return FallbackModel([self._model(each) for each in given])


def _with_port(given: Any) -> Model:
    if not callable(getattr(given, "reply", None)):
        raise MisconfiguredError(
            f"a model of type {type(given).__name__}; give the name of a model, or an object with reply() and stream()"
        )
    return cast(Model, given)


def _named(name: str) -> Model:
    if name == "offline":
        from changeover.models.offline import OfflineModel

        return OfflineModel()
    from changeover.models.provider import named

    return named(name)


def _is_pydantic_ai(given: object) -> bool:
    """True if it is a model of pydantic-ai; tested without importing pydantic-ai."""
    kinds = {(kind.__module__, kind.__name__) for kind in type(given).__mro__}
    return ("pydantic_ai.models", "Model") in kinds
