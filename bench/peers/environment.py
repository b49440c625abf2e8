"""The contenders, and the virtual environment that each of them is measured in."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv/peers"
ALL = ("relay", "durable", "long", "many", "imports", "crash")


class Peer(NamedTuple):
    """A library with its pinned release, and the statement that a program of it begins with."""

    name: str
    adapter: str
    requirements: Sequence[str]
    imports: str
    scenarios: Sequence[str] = ALL
    relays: bool = True
    """False if a receiver cannot hand on, so that a run has at most one handoff."""
    environment: str = ""
    """The environment, if it is that of another contender."""

    @property
    def folder(self) -> Path:
        return FOLDER / (self.environment or self.adapter)

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"

    def install(self) -> None:
        """Make the environment, unless it is there with the same requirements."""
        stamp, wanted = self.folder / "requirements.txt", "\n".join(self.requirements)
        if stamp.exists() and stamp.read_text() == wanted:
            return
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(self.folder)], check=True)
        pip = [str(self.python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, *self.requirements], cwd=ROOT, check=True)
        stamp.write_text(wanted)

    def version(self) -> str:
        """The installed release; of a checkout without a release, none."""
        package = self.requirements[0].partition("==")[0].partition("[")[0]
        code = f"from importlib.metadata import version; print(version({package!r}))"
        return "" if package == "-e" else subprocess.check_output([self.python, "-c", code], text=True).strip()

    def distributions(self) -> int:
        """The number of installed distributions, without pip and setuptools, which every environment has."""
        found = self.folder.glob("lib/python*/site-packages/*.dist-info")
        return sum(not each.name.startswith(("pip-", "setuptools-")) for each in found)

    async def measure(self, scenario: str, **args: Any) -> dict[str, Any]:
        """Run a scenario in a process of its own; `{}` if the process was killed, as `crash` does."""
        command = [str(self.python), "-m", "bench.peers.worker", self.adapter, scenario, json.dumps(args)]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await process.communicate()
        if process.returncode and scenario != "crash":
            raise RuntimeError(f"{self.name}, {scenario}: {err.decode()[-2000:]}")
        return dict(json.loads(out)) if out else {}


OURS = Peer("Changeover", "changeover", ("-e", "."), "from changeover import Agent, Team")
FLOOR = Peer(
    "a loop by hand",
    "floor",
    OURS.requirements,
    "import asyncio, json, sqlite3",
    ("relay", "durable", "many"),
    environment=OURS.adapter,
)
PEERS = (
    FLOOR,
    OURS,
    Peer(
        "OpenAI Agents",
        "openai_agents",
        ("openai-agents==0.24.0",),
        "from agents import Agent, Runner, SQLiteSession",
    ),
    Peer(
        "LangGraph",
        "langgraph",
        (
            "langgraph==1.2.20",
            "langgraph-swarm==0.1.0",
            "langchain==1.4.7",
            "langchain-core==1.7.2",
            "langgraph-checkpoint-sqlite==3.1.2",
        ),
        "from langchain.agents import create_agent; from langgraph_swarm import create_handoff_tool, create_swarm",
    ),
    Peer("Pydantic AI", "pydantic_ai", ("pydantic-ai-slim==2.66.0",), "from pydantic_ai import Agent"),
    Peer(
        "AutoGen",
        "autogen",
        ("autogen-agentchat==0.7.5", "autogen-core==0.7.5"),
        "from autogen_agentchat.agents import AssistantAgent; from autogen_agentchat.teams import Swarm",
    ),
    Peer(
        "CrewAI",
        "crewai",
        ("crewai==1.15.30",),
        "from crewai import Agent, Crew, Task",
        ("relay", "durable", "imports", "crash"),
        relays=False,
    ),
    Peer(
        "Agent Framework",
        "agent_framework",
        ("agent-framework-core==1.23.0", "agent-framework-orchestrations==1.4.0"),
        "from agent_framework import Agent; from agent_framework.orchestrations import HandoffBuilder",
    ),
    Peer(
        "Google ADK",
        "google_adk",
        ("google-adk[db]==2.13.0", "aiosqlite"),
        "from google.adk.agents import LlmAgent; from google.adk.runners import Runner",
    ),
    Peer(
        "Strands",
        "strands",
        ("strands-agents==1.62.0",),
        "from strands import Agent; from strands.multiagent import Swarm",
    ),
    Peer(
        "Agno",
        "agno",
        ("agno==3.1.10", "sqlalchemy[asyncio]", "aiosqlite"),
        "from agno.agent import Agent; from agno.team import Team",
        relays=False,
    ),
)
