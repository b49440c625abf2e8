"""What a user may get wrong: each time one clear line, the right exit code, and never a traceback."""

from pathlib import Path

import pytest

from tests.cli.process import changeover

YAML = {
    "key.yaml": "model: offline\nagents:\n  - id: triage\n    handofs: []\n",
    "comma.yaml": "agents:\n  - id: triage\n    handoffs: [billing\n",
    "target.yaml": "model: offline\nagents:\n  - id: triage\n    handoffs:\n      - to: sales\n",
    "mistyped.yaml": "model: offline\nagents:\n  - id: triage\n    handoffs: [biling]\n  - id: billing\n",
    "tool.yaml": "model: offline\nagents:\n  - id: triage\n    tools: [plain:nothing]\n",
    "text.yaml": "model: offline\nagents: triage\n",
}
PULLED = """
from changeover import Agent, Person, Team
from changeover.stores.memory.log import MemoryLog

team = Team([Agent("papers", pull=True), Person("ana")])
kept = Team([Agent("clerk", pull=True)], model="offline", store=MemoryLog())
"""
NO_STORE = "the store sqlite:///nix.db does not exist; `changeover run` or `changeover db upgrade` creates it"
WRONG = {
    "a missing file": (["run", "nix.py:team", "x"], "there is no file nix.py"),
    "a misspelt file": (["run", "plane.py", "x"], "there is no file plane.py; did you mean plain.py?"),
    "a misspelt ending": (
        ["run", "plain.pyy", "x"],
        "there is no module 'plain.pyy' here or among the installed packages; the name of a file ends in .py or .yaml",
    ),
    "an empty team": (["run", "", "x"], "TEAM is empty; give a file, such as team.py"),
    "no such event": (
        ["bus", "show", "nix", "--store", "fine.db"],
        "there is no event 'nix'; see: changeover bus list",
    ),
    "a missing YAML file": (["graph", "nix.yaml"], "there is no file nix.yaml"),
    "a missing module": (["run", "nix.mod:team", "x"], "there is no module 'nix'"),
    "a missing name": (["run", "plain.py:nobody", "x"], "plain.py has no 'nobody'; it has: another, make, one, wrong"),
    "several teams": (["run", "several.py", "x"], "several.py has several teams: a, b; say which, as in several.py:a"),
    "no team": (
        ["run", "plain.py:wrong", "x"],
        "plain.py:wrong is not a Team and does not return one: it is of type int",
    ),
    "a broken file": (["run", "broken.py", "x"], "line 2: NameError: name 'nothing' is not defined"),
    "a file that is no Python": (["run", "syntax.py", "x"], "line 1: invalid syntax"),
    "a team with faults": (
        ["run", "faulty.py", "x"],
        "faulty.py: agent 'a' hands off to 'b', which is not",
    ),
    "no such agent": (["run", "plain.py", "x", "--agent", "sales"], "no agent is called 'sales'; this team has: "),
    "a misspelt agent": (
        ["run", "plain.py", "x", "--agent", "fornt"],
        "no agent is called 'fornt'; did you mean 'front'? This team has: broken, echo, front",
    ),
    "a misspelt agent to show": (
        ["agents", "show", "ecko", "--team", "plain.py"],
        "no agent is called 'ecko'; did you mean 'echo'? There are: broken, echo, front",
    ),
    "a misspelt agent to serve": (["worker", "plain.py", "--agents", "ecko"], "did you mean 'echo'?"),
    "a team that is no UTF-8": (["graph", "latin.yaml"], "latin.yaml is not valid UTF-8"),
    "a conversation that is no UTF-8": (["resume", "plain.py", "a\udcff"], "not valid UTF-8"),
    "a folder for a team": (["graph", "folder.yaml"], "folder.yaml cannot be read: Is a directory"),
    "a missing store by file": (["tasks", "--store", "nix.db"], NO_STORE),
    "no such file": (
        ["run", "plain.py", "x", "--attach", "nix.png"],
        "the file 'nix.png' cannot be read: No such file",
    ),
    "no such conversation": (["resume", "plain.py", "nix"], "no conversation has the id 'nix'"),
    "a bad conversation": (["run", "plain.py", "x", "--conversation", "a b"], "cannot be a conversation's id"),
    "a key in YAML": (["graph", "key.yaml"], "key.yaml, line 4, column 5: 'handofs' is not known here; did you mean"),
    "YAML that is none": (["graph", "comma.yaml"], "comma.yaml, line 4, column 1: while parsing a flow sequence"),
    "a misspelt target in YAML": (
        ["graph", "mistyped.yaml"],
        "(triage, billing), found 'biling'; did you mean 'billing'?",
    ),
    "a target in YAML": (["graph", "target.yaml"], "target.yaml, line 5, column 13: expected the id of an agent"),
    "a tool in YAML": (["graph", "tool.yaml"], "tool.yaml, line 4, column 13: plain:nothing cannot be imported"),
    "text for a list": (["graph", "text.yaml"], "text.yaml, line 2, column 9: expected a list of agents, found text"),
    "a store that is none": (["tasks", "list", "--store", "sqlite:///junk.db"], "junk.db cannot be opened"),
    "a store of no kind": (["tasks", "list", "--store", "redis://x"], "'redis://x' is no store"),
    "a missing store": (["handoffs", "list", "--store", "sqlite:///nix.db"], NO_STORE),
    "a missing store to check": (["db", "check", "--store", "sqlite:///nix.db"], NO_STORE),
    "no server": (["approvals", "list", "--store", "postgresql://u:secret@127.0.0.1:1/x"], "cannot be reached"),
    "no such task": (["tasks", "show", "nix", "--store", "sqlite:///fine.db"], "there is no task 'nix'"),
    "no such handoff": (["handoffs", "show", "nix", "--store", "sqlite:///fine.db"], "there is no handoff 'nix'"),
    "no such drawing": (["graph", "nix", "--store", "sqlite:///fine.db"], "no conversation has the id 'nix'"),
    "no such approval": (["approvals", "approve", "nix", "--team", "plain.py"], "'nix' is not the id of an approval"),
    "nobody to serve": (
        ["worker", "plain.py"],
        "no agent of plain.py is served by workers: declare one with pull=True (in YAML: pull: true), or name the",
    ),
    "no such agent to serve": (["worker", "plain.py", "--agents", "sales"], "no agent is called 'sales'; this team"),
    "a person to serve": (
        ["worker", "pulled.py:team", "--agents", "ana"],
        "'ana' is a person, whom no worker can serve",
    ),
    "nothing to think with": (["worker", "pulled.py:team"], "agent 'papers' has no model to work with"),
    "a store in memory": (
        ["worker", "pulled.py:kept"],
        "pulled.py:kept keeps its conversations in memory, which other processes cannot reach; give --store",
    ),
    "no team to serve": (["worker", "nix.py"], "there is no file nix.py"),
    "a missing store of stuck ones": (["handoffs", "stuck", "--store", "sqlite:///nix.db"], NO_STORE),
    "a missing store to try again": (["handoffs", "retry", "a:1.0", "--store", "sqlite:///nix.db"], NO_STORE),
    "no handoff to try again": (
        ["handoffs", "retry", "nix:3.0", "--store", "sqlite:///fine.db"],
        "there is no handoff 'nix:3.0'; see: changeover handoffs list",
    ),
    "no id to cancel": (["handoffs", "cancel", "nix", "--team", "plain.py"], "'nix' is not the id of a handoff; see:"),
    "no handoff to cancel": (
        ["handoffs", "cancel", "nix:3.0", "--team", "plain.py"],
        "no handoff has the id 'nix:3.0'",
    ),
    "a name for init": (["init", "a$b"], "is not a usable name for a project"),
}
MISUSED = {
    "no text": (["run", "plain.py"], "Missing argument 'TEXT'"),
    "no such option": (["conversations", "--nix"], "No such option"),
    "no such status": (["tasks", "list", "--status", "lost"], "'lost' is not one of"),
    "no such format": (["graph", "plain.py", "--format", "png"], "'png' is not one of"),
    "an empty text": (["run", "plain.py", " "], "the message is empty"),
    "an empty standard input": (["run", "plain.py", "-"], "the message is empty"),
    "no JSON to edit with": (["approvals", "edit", "a:1", "5", "--team", "plain.py"], "'5' is not a JSON object"),
    "no such command": (["taks"], "No such command 'taks'"),
    "no such verb": (["tasks", "shwo"], "No such command 'shwo'"),
    "both demos": (["demo", "--chat", "--crash"], "choose one"),
    "no limit": (["tasks", "--limit", "0"], "Invalid value for '--limit': it should be greater than or equal to 1"),
    "a limit in words": (["tasks", "--limit", "few"], "Invalid value for '--limit': it is not a whole number"),
    "a lease in words": (["worker", "plain.py", "--lease", "long"], "Invalid value for '--lease': it is not a number"),
    "no such state": (
        ["handoffs", "--state", "lost"],
        "Invalid value for '--state' / '--status': 'lost' is not one of",
    ),
    "no team for a workflow": (["workflows", "start", "x"], "a run needs its team: give it as --team TEAM, or set"),
    "no duration": (["metrics", "--window", "soon"], "'soon' is not a duration, such as 90s"),
    "no key and value": (["run", "plain.py", "x", "--context", "a"], "'a' is not KEY=VALUE"),
    "no workers at all": (["worker", "plain.py", "--concurrency", "0"], "greater than or equal to 1"),
    "no lease": (["worker", "plain.py", "--lease", "0"], "give more than 0 seconds"),
    "a lease that is no number": (["worker", "plain.py", "--lease", "nan"], "nan is not a number of seconds"),
    "less than no grace": (["worker", "plain.py", "--grace", "-1"], "-1 is not a number of seconds"),
    "nobody named": (["worker", "plain.py", "--agents", " ,"], "it names no agent; give ids, as in billing,research"),
    "stuck since tomorrow": (["handoffs", "stuck", "--older", "-5"], "-5 is not a number of seconds"),
    "no team to cancel with": (["handoffs", "cancel", "a:3.0"], "only its team knows"),
    "no team to decide": (["approvals", "approve", "x"], "only the team knows"),
}


@pytest.fixture(scope="module")
def place(folder: Path) -> Path:
    """Where much is wrong."""
    for name, text in YAML.items():
        (folder / name).write_text(text)
    (folder / "junk.db").write_text("this is no database, and it is long enough to be seen as something else" * 20)
    (folder / "broken.py").write_text("from changeover import Team\nteam = Team(nothing)\n")
    (folder / "syntax.py").write_text("this is no Python\n")
    (folder / "faulty.py").write_text("from changeover import Agent, Team\nteam = Team([Agent('a', handoffs=['b'])])\n")
    (folder / "pulled.py").write_text(PULLED)
    (folder / "latin.yaml").write_bytes("agents: [ä]".encode("latin-1"))
    (folder / "folder.yaml").mkdir()
    (folder / "several.py").write_text("import plain\na, b = plain.make(), plain.make()\n")
    assert changeover("db", "upgrade", "--store", "sqlite:///fine.db", at=folder).returncode == 0
    return folder


def assert_nothing_was_made(place: Path) -> None:
    assert not (place / "nix.db").exists()
    assert not (place / "a$b").exists()


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_one_line_and_exit_code_1(name: str, place: Path):
    args, said = WRONG[name]
    done = changeover(*args, at=place)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert done.stderr.startswith("changeover: ")
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr
    assert len(done.stderr.splitlines()) == (3 if name == "a team with faults" else 1)
    assert_nothing_was_made(place)


@pytest.mark.parametrize("name", MISUSED)
def test_wrong_use_ends_with_2(name: str, place: Path):
    args, said = MISUSED[name]
    done = changeover(*args, at=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.replace("│", "").split())
    assert_nothing_was_made(place)
