"""Models by name, and the errors of names that cannot be resolved."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from changeover import Agent, Team
from changeover.errors import MisconfiguredError
from changeover.models import LimitedModel
from changeover.models.offline import OfflineModel
from changeover.models.provider import PydanticAIModel
from changeover.models.resolver import Resolver
from changeover.models.wrappers import FallbackModel
from changeover.testing import ScriptedModel, says

KEYS = {
    "openai:gpt-5": "OPENAI_API_KEY",
    "openai-chat:gpt-4o": "OPENAI_API_KEY",
    "anthropic:claude-sonnet-4-6": "ANTHROPIC_API_KEY",
    "google:gemini-2.5-pro": "GOOGLE_API_KEY",
    "ollama:llama3.2": "OLLAMA_BASE_URL",
    "deepseek:deepseek-chat": "DEEPSEEK_API_KEY",
}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in {*KEYS.values(), "GEMINI_API_KEY", "OPENAI_BASE_URL"}:
        monkeypatch.delenv(variable, raising=False)


def faults(*agents: Agent, **options: Any) -> tuple[str, ...]:
    with pytest.raises(MisconfiguredError) as caught:
        Team([*agents], **options)
    return caught.value.faults


@pytest.mark.parametrize(("name", "variable"), KEYS.items())
def test_a_missing_key_is_named_before_anything_is_recorded(name: str, variable: str, tmp_path: Path):
    store = tmp_path / "store.db"
    [fault] = faults(Agent("a"), model=name, store=f"sqlite:///{store}")
    assert fault == f"agent 'a' has model={name!r}, which needs the environment variable {variable}"
    assert not store.exists()


def test_a_fault_of_several_agents_is_reported_once_beside_all_other_faults():
    found = faults(Agent("a"), Agent("b"), Agent("c", model="nobody:x"), Agent("d", model=7), model="openai:gpt-5")
    assert found == (
        "agents 'a', 'b' have model='openai:gpt-5', which needs the environment variable OPENAI_API_KEY",
        "agent 'c' has model='nobody:x', which names no known provider; write provider:model, such as 'openai:gpt-5'",
        "agent 'd' has a model of type int; give the name of a model, or an object with reply() and stream()",
    )


def test_a_name_without_its_provider_gets_a_suggestion():
    [fault] = faults(Agent("a", model="gpt-5"))
    assert "did you mean 'openai" in fault


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("openai:gpt-5", "openai", "changeover[openai]"),
        ("anthropic:claude-sonnet-4-6", "anthropic", "changeover[anthropic]"),
        ("google:gemini-2.5-pro", "google.genai", "changeover[google]"),
        ("bedrock:amazon.nova-pro-v1:0", "boto3", "changeover[bedrock]"),
        ("groq:llama-3.3-70b-versatile", "groq", "pydantic-ai-slim[groq]"),
    ],
)
def test_the_fault_of_a_missing_provider_names_the_package_to_install(name: str, package: str, extra: str):
    # In a process of its own: this one has imported them already.
    program = f"""
import sys
sys.modules[{package!r}] = None
from changeover import Agent, Team
from changeover.errors import MisconfiguredError
try:
    Team([Agent("a", model={name!r})])
except MisconfiguredError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert said == f"agent 'a' has model={name!r}, whose provider is not installed: pip install '{extra}'\n"


def test_a_team_without_such_a_model_imports_no_provider():
    program = """
import sys
from changeover import Agent, Team
from changeover.testing import ScriptedModel, says
print(Team([Agent("a")], model=ScriptedModel({"a": [says("Hi")]})).run_sync("Hello").output)
assert "pydantic_ai" not in sys.modules
"""
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert said == "Hi\n"


def test_the_offline_model_has_a_name():
    assert isinstance(Resolver().resolve("offline", {}, None), OfflineModel)


def test_agents_of_one_name_share_one_client(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    resolver = Resolver()
    one, other = (resolver.resolve("openai:gpt-5", {}, None) for _ in range(2))
    assert isinstance(one, PydanticAIModel)
    assert one is other


def test_a_list_stands_for_fallbacks_and_tells_of_all_that_is_missing():
    mine = ScriptedModel({"a": [says("Hi")]})
    model = Resolver().resolve([mine, "offline"], {}, None)
    assert isinstance(model, FallbackModel)
    assert model.models[0] is mine
    found = faults(Agent("a", model=["openai:gpt-5", "anthropic:claude-sonnet-4-6"]))
    assert [fault.split()[-1] for fault in found] == ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"]
    assert faults(Agent("a", model=[])) == faults(Agent("a"))


def test_a_limited_model_takes_a_name():
    [fault] = faults(Agent("a", model=LimitedModel("openai:gpt-5", at_once=2)))
    assert fault.endswith("OPENAI_API_KEY")


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        (
            {"temprature": 1.0},
            "the setting 'temprature', which openai:gpt-5 does not know; did you mean 'temperature'",
        ),
        ({"temperature": "hot"}, "the setting 'temperature' with the value 'hot': Input should be a valid number"),
        ({"max_retries": 5}, "the setting 'max_retries', which is not for agents: retries are made by Changeover"),
        ({"anthropic_thinking": {}}, "the setting 'anthropic_thinking', which openai:gpt-5 does not know"),
    ],
)
def test_a_setting_that_cannot_be_is_a_fault(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], fault: str):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    for model in ("openai:gpt-5", ["openai:gpt-5"], LimitedModel("openai:gpt-5", at_once=1)):
        [found] = faults(Agent("a", model=model, settings=settings))
        assert found.startswith(f"agent 'a' has {fault}")


def test_settings_are_a_dict():
    settings: Any = [("temperature", 1)]
    [fault] = faults(Agent("a", model="offline", settings=settings))
    assert fault.startswith("agent 'a' has settings=(('temperature', 1),); give a dict")


def test_settings_of_all_providers_and_of_this_one_are_fine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    common = {"temperature": 0.5, "max_tokens": 100, "timeout": 3, "request_timeout": 60.0, "thinking": "high"}
    Team([Agent("a", model="openai:gpt-5", settings={**common, "openai_reasoning_effort": "low"})])
