"""Resolver: from what users give as a model to a Model port. Imports a provider's library only where one is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from changeover.errors import MisconfiguredError
from changeover.models.wrappers import FallbackModel, LimitedModel
from changeover.relay.ports import Model

NOTHING = "no model; give it one with Agent(model=…), or all of them with Team(model=…)"


class Resolver:
    """The models of one team. What is given twice is made once, so that connections and limits are shared."""

    def __init__(self) -> None:
        self._made: dict[str | int, tuple[Any, Model | MisconfiguredError]] = {}

    def resolve(self, given: Any, settings: Mapping[str, Any], output: Any) -> Model:
        """The model for an agent with these settings and this output; raises MisconfiguredError with every fault."""
        model = self._model(given)
        if not isinstance(settings, Mapping):
            raise MisconfiguredError(f"settings={settings!r}; give a dict, such as {{'temperature': 0}}")
        check = getattr(model, "setting_faults", None)
        if check and settings and (faults := check(settings)):
            raise MisconfiguredError(*faults)
        if output is None or output is str:
            return model
        from changeover.models.typed_output import ShapedModel

        return ShapedModel(model, output)

    def _model(self, given: Any) -> Model:
        made = self._tried(given)
        if isinstance(made, MisconfiguredError):
            raise made
        return made

    def _tried(self, given: Any) -> Model | MisconfiguredError:
        # The given object is held as well: the id of one that is gone could be another's.
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
                raise MisconfiguredError(NOTHING)
            case str():
                return _named(given)
            case list() | tuple():
                return self._several(given)
            case LimitedModel():
                return given.around(self._model(given.model))
            case _ if _theirs(given):
                from changeover.models.provider import PydanticAIModel

                return PydanticAIModel(lambda: given)
            case _:
                return _ours(given)

    def _several(self, given: Sequence[Any]) -> Model:
        tried = [self._tried(each) for each in given]
        if faults := [fault for each in tried if isinstance(each, MisconfiguredError) for fault in each.faults]:
            raise MisconfiguredError(*faults)
        return FallbackModel([self._model(each) for each in given])


def _ours(given: Any) -> Model:
    if not callable(getattr(given, "reply", None)):
        raise MisconfiguredError(
            f"as its model an object of type {type(given).__name__}; a model has reply() and stream()"
        )
    return cast(Model, given)


def _named(name: str) -> Model:
    if name == "offline":
        from changeover.models.offline import OfflineModel

        return OfflineModel()
    from changeover.models.provider import named

    return named(name)


def _theirs(given: object) -> bool:
    """Whether it is a model of pydantic-ai; asked without importing it."""
    kinds = {(kind.__module__, kind.__name__) for kind in type(given).__mro__}
    return ("pydantic_ai.models", "Model") in kinds
