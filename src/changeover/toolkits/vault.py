"""Vault: resolves references to secrets when a call is made, and removes their values from the outcome."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator
from urllib.parse import quote, quote_plus, urlsplit

from msgspec.structs import replace

from changeover.relay.ports.world import ToolOutcome
from changeover.toolkits.result_text import CallFailed
from changeover.tools.secret import REFERENCE

SHORTEST = 6
"""Length of the shortest value that is removed from texts; a shorter value may be a common word."""


class MissingSecret(CallFailed):
    """A declaration refers to an environment variable that is not set."""


class Vault:
    """The secrets of one team. A value lives only in memory, from the first call that needs it."""

    def __init__(self) -> None:
        self._hidden: dict[str, str] = {}
        """The reference that replaces each form of each value in a text, the longest form first."""

    def resolve(self, text: str) -> str:
        """The text with each `${NAME}` replaced by the environment variable; raises MissingSecret."""
        return REFERENCE.sub(lambda found: self.get(found[1]), text)

    def get(self, name: str) -> str:
        """The value of one secret; raises MissingSecret."""
        if not (value := os.environ.get(name, "")):
            raise MissingSecret(f"the environment variable {name}, which its declaration refers to, is not set here")
        if value not in self._hidden:
            self.hide(f"${{{name}}}", value)
        return value

    def hide(self, reference: str, *values: str) -> None:
        """Replace these values by the `reference` in every text from now on; a password inside a URL as well."""
        forms = {form for value in values for form in _forms(value) if len(form) >= SHORTEST}
        hidden = {**self._hidden, **dict.fromkeys(forms, reference)}
        self._hidden = {form: hidden[form] for form in sorted(hidden, key=len, reverse=True)}

    def redact(self, text: str) -> str:
        """The text without the values of secrets."""
        for form, reference in self._hidden.items():
            if form in text:
                text = text.replace(form, reference)
        return text

    def redacted(self, outcome: ToolOutcome) -> ToolOutcome:
        """The outcome without the values of secrets."""
        if not self._hidden or outcome.directive is not None:
            return outcome
        return replace(outcome, text=self.redact(outcome.text))


def _forms(value: str) -> Iterator[str]:
    """The forms in which a server may repeat a value."""
    yield from (value, quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1], value.strip())
    yield b64encode(value.encode()).decode()
    try:
        password = urlsplit(value).password if "://" in value else None
    except ValueError:
        password = None
    if password:
        yield password
