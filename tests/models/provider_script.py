"""Replies of the LLM server: the same scenes for every provider, plain and streamed.

A scene is called by what the user says, `[scene/api/way]`, so that no two tests share a line of it.
"""

from typing import Any

APIS = ("chat", "responses", "anthropic", "google")
ELSEWHERE = ("ollama", "bedrock")
WAYS = ("plain", "streamed")
USAGE = {"input_tokens": 1000, "output_tokens": 100, "prompt_tokens": 1000, "completion_tokens": 100}
COUNTED = USAGE | {"total_tokens": 1100, "promptTokenCount": 1000, "candidatesTokenCount": 100, "totalTokenCount": 1100}
TOO_LONG = {
    "chat": "This model's maximum context length is 8192 tokens",
    "responses": "This model's maximum context length is 8192 tokens",
    "anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
    "google": "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
}
LONG_TEXT = "This answer goes on for so long that it comes in several pieces, one after the other."


def scene(name: str, api: str, way: str) -> str:
    """What a user says to call a scene."""
    return f"[{name}/{api}/{way}]"


def fixtures() -> list[dict[str, Any]]:
    """All scenes."""
    return [
        line for api in (*APIS, *ELSEWHERE) for way in WAYS for line in [*_answers(api, way), *_troubles(api, way)]
    ] + _tour()


def _answers(api: str, way: str) -> list[dict[str, Any]]:
    def on(name: str, response: dict[str, Any], **match: Any) -> dict[str, Any]:
        return {"match": {"userMessage": scene(name, api, way), **match}, "response": response}

    return [
        on("text", {"content": "Good morning.", "usage": COUNTED}),
        on("thinking", {"content": "Four.", "reasoning": "Two and two.", "reasoningSignature": "c2lnbmVk"}),
        on("tool", {"content": "It is 21."}, hasToolResult=True),
        on("tool", _calls(api, ("look", {"n": 7})), hasToolResult=False),
        on("two", {"content": "Both are done."}, hasToolResult=True),
        on("two", _calls(api, ("look", {"n": 1}), ("look", {"n": 2})), hasToolResult=False),
        on("bad", {"content": "I see."}, hasToolResult=True),
        on("bad", _calls(api, ("look", {"n": "many"})), hasToolResult=False),
        on("handoff", _handoff(api, "billing", scene("refund", api, way)), systemMessage="You are triage."),
        on("refund", {"content": "Refunded."}, systemMessage="You are billing."),
        on("showing", _handoff(api, "billing", scene("shown", api, way)), systemMessage="You are triage."),
        on("shown", {"content": "I see it."}, systemMessage="You are billing."),
        on("shape", {"content": {"city": "Oslo", "degrees": 7}}),
        on("shapeless", {"content": "I would rather talk."}, sequenceIndex=0),
        on("shapeless", {"content": {"city": "Rome", "degrees": 21}}),
        on("after", {"content": "We go on."}),
    ]


def _troubles(api: str, way: str) -> list[dict[str, Any]]:
    def first(name: str, response: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"match": {"userMessage": scene(name, api, way), "sequenceIndex": 0}, "response": response, **more}

    def then(name: str) -> dict[str, Any]:
        return {"match": {"userMessage": scene(name, api, way)}, "response": {"content": LONG_TEXT}}

    kind = "INVALID_ARGUMENT" if api == "google" else "invalid_request_error"
    long = {"message": TOO_LONG.get(api, "too long"), "type": kind}
    return [
        first(
            "limited", {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 1}
        ),
        then("limited"),
        first("failing", {"error": {"message": "oh no", "type": "server_error"}, "status": 500}),
        then("failing"),
        first("broken", {"content": LONG_TEXT}, truncateAfterChunks=3),
        then("broken"),
        first("slow", {"content": LONG_TEXT}, chaos={"latencyMs": 2000}),
        then("slow"),
        first("long", {"error": long, "status": 400}),
        then("long"),
        first("locked", {"error": {"message": "who are you?", "type": "authentication_error"}, "status": 401}),
        then("locked"),
    ]


def _tour() -> list[dict[str, Any]]:
    """One conversation through three providers: each looks something up, then hands on; the last one answers."""

    def at(agent: str, response: dict[str, Any], **match: Any) -> dict[str, Any]:
        return {"match": {"systemMessage": f"You are {agent} on tour.", **match}, "response": response}

    return [
        at("first", {"content": "I am the first again."}, userMessage="And you?"),
        at("first", _handoff("chat", "second", "to the second"), hasToolResult=True),
        at("first", _calls("chat", ("look", {"n": 1}))),
        at("second", _handoff("anthropic", "third", "to the third"), hasToolResult=True),
        at("second", _calls("anthropic", ("look", {"n": 2}), thinking="Hm, two.")),
        at("third", {"content": "Looked up 1, 2 and 3."}, hasToolResult=True),
        at("third", _calls("google", ("look", {"n": 3}))),
    ]


def _calls(api: str, *calls: tuple[str, dict[str, Any]], thinking: str = "") -> dict[str, Any]:
    made = {"content": "I look.", "toolCalls": [{"name": name, "arguments": args} for name, args in calls]}
    # The server's own word for it is one that Google's client does not know.
    ending = {"finishReason": "stop"} if api == "google" else {}
    return made | ending | ({"reasoning": thinking, "reasoningSignature": "c2lnbmVk"} if thinking else {})


def _handoff(api: str, to: str, message: str) -> dict[str, Any]:
    return _calls(api, ("handoff", {"to": to, "message": message}))
