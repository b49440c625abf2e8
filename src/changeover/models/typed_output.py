"""ShapedModel: checks that an agent's answers are JSON of its declared output type."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

from msgspec.structs import replace
from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from changeover.errors import MisconfiguredError, ModelError
from changeover.messages import Reply
from changeover.relay.ports import Model, Request
from changeover.relay.stream import TextDelta, ThinkingDelta

FENCE = re.compile(r"\s*```\w*\s*\n(.*?)\n?\s*```\s*", re.DOTALL)


class ShapedModel:
    """A model whose answers fit a type. One that does not is an error that may be tried again."""

    def __init__(self, model: Model, output: Any) -> None:
        self._name = getattr(output, "__name__", str(output))
        try:
            self._type: TypeAdapter[Any] = TypeAdapter(output)
            schema = self._type.json_schema()
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            words = str(error).splitlines()[0]
            raise MisconfiguredError(f"output={self._name}, of which no JSON schema can be made: {words}") from error
        giving = getattr(model, "giving", None)
        self.model: Model = giving(schema, self._name) if giving else model

    async def reply(self, request: Request) -> Reply:
        return self._fit(await self.model.reply(request), request)

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        async for piece in self.model.stream(request):
            yield self._fit(piece, request) if isinstance(piece, Reply) else piece

    async def let_go(self) -> None:
        if let_go := getattr(self.model, "let_go", None):
            await let_go()

    def _fit(self, reply: Reply, request: Request) -> Reply:
        """The reply with nothing but the JSON as its text; a reply that calls something is no answer yet."""
        if reply.calls:
            return reply
        fenced = FENCE.fullmatch(reply.text)
        text = fenced[1] if fenced else reply.text
        try:
            self._type.validate_json(text)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in error.errors())
            raise ModelError(f"its answer does not fit {self._name}: {wrong}", agent=request.agent) from error
        return replace(reply, text=text) if fenced else reply
