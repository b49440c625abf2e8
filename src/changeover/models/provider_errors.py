"""Provider errors as ModelError: the cause, whether a retry may help, and what the user can do."""

from __future__ import annotations

from typing import Any

from pydantic_ai.exceptions import (
    FallbackExceptionGroup,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
    UserError,
)

from changeover.errors import ModelError
from changeover.models.wrappers import joint_error

LONGEST_WAIT = 120.0
"""Seconds; if a provider asks for a longer wait, the call is not retried."""
LONGEST_MESSAGE = 500

UNREADABLE = "it cannot read a file of this kind; leave the file out, or use a model that can"

# The first match counts, so subclasses come before their base classes.
MEANINGS: list[tuple[type[BaseException], bool, str]] = [
    (
        ModelContextWindowExceededError,
        False,
        "the conversation is too long for this model; begin a new one, hand off with less "
        "(strategy=MessageOnly()), or choose a model with a larger context window",
    ),
    (ModelAuthenticationError, False, "check the API key, and that it may use this model"),
    (ModelNotFoundError, False, "check the name of the model"),
    (ModelQuotaExceededError, False, "the account has nothing left to spend; top it up"),
    (ModelRequestRejectedError, False, "the provider rejected the request; check settings, tools and output"),
    (ModelRateLimitError, True, "it is asked too often; limit it with LimitedModel(…, at_once=…)"),
    (ModelOverloadedError, True, "the provider is overloaded"),
    (ModelUnavailableError, True, "the provider is not available"),
    (ModelServerError, True, "the provider has failed"),
    (ModelTimeoutError, True, "it took too long; give it more time by Agent(settings={'timeout': …})"),
    (ModelConnectionError, True, "the connection failed"),
    (TimeoutError, True, "it took too long; give it more time by Agent(settings={'request_timeout': …})"),
    (UnexpectedModelBehavior, True, "its answer could not be read"),
    (UserError, False, "it cannot be asked this way"),
    (NotImplementedError, False, UNREADABLE),
    (AssertionError, False, "it cannot be asked this way"),
]
PASSING_STATUS = (408, 409, 425)
"""HTTP errors below 500 that a retry may solve."""


def model_error(error: Exception, model: str, agent: str) -> ModelError:
    """The ModelError for an exception of pydantic-ai or a provider's client."""
    if isinstance(error, ModelError):
        return ModelError(f"{model}: {error}", agent=agent, retryable=error.retryable)
    if isinstance(error, FallbackExceptionGroup):
        return joint_error(
            [model_error(each, getattr(each, "model_name", model), agent) for each in error.exceptions], agent
        )
    retryable, meaning = _meaning(error)
    wait = error.retry_after if isinstance(error, ModelAPIError) else None
    if wait is not None and wait > LONGEST_WAIT:
        retryable, meaning = False, f"{meaning}; it asks to wait {wait:.0f} s, which is too long"
    status = f" answered {error.status_code}" if isinstance(error, ModelHTTPError) else ""
    message = f"{model}{status}: {_message(error)}"
    return ModelError(
        f"{message} ({meaning})" if meaning else message, agent=agent, retryable=retryable, retry_after=wait
    )


def _meaning(error: Exception) -> tuple[bool, str]:
    for kind, retryable, meaning in MEANINGS:
        if isinstance(error, kind):
            return retryable, meaning
    if isinstance(error, RuntimeError) and str(error).startswith("Unsupported"):
        return False, UNREADABLE
    if isinstance(error, ModelHTTPError):
        return error.status_code >= 500 or error.status_code in PASSING_STATUS, ""
    return True, ""


def _message(error: Exception) -> str:
    """The provider's message, shortened."""
    message = _body_message(getattr(error, "body", None)) or str(error) or type(error).__name__
    if not isinstance(error, ModelAPIError | UnexpectedModelBehavior | UserError):
        message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]} […]"


def _body_message(body: Any) -> str:
    """The message in the body of an HTTP error, whose form differs from provider to provider."""
    if isinstance(body, dict):
        # Amazon capitalises the keys, and some of its messages are empty.
        fields = {str(key).lower(): value for key, value in body.items()}
        inner = fields.get("error", fields.get("message", "")) or fields.get("code", "")
        return _body_message(inner) if isinstance(inner, dict) else str(inner)
    return body if isinstance(body, str) else ""
