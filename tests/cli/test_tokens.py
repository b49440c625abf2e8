"""The command `tokens`: a secret is printed once, and tokens are listed and revoked by their id."""

import json
from pathlib import Path

import pytest

from changeover.stores.store import Store, upgrade_store
from tests.cli.process import Done, changeover, on_a_terminal


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tokens")
    upgrade_store(Store(f"sqlite:///{made / 'changeover.db'}"))
    return made


def tokens(folder: Path, *words: str) -> Done:
    return changeover("tokens", *words, at=folder)


def test_a_token_is_made_listed_and_revoked(folder: Path):
    made = tokens(folder, "add", "ada", "--role", "approver", "--approval-role", "boss", "--expires", "90d", "--all")
    assert made.returncode == 0, made.stderr
    [secret] = made.stdout.split()
    id = secret.split("_")[1]
    assert f"the secret of {id}" in made.stderr
    listed = tokens(folder, "list")
    assert [word in listed.stdout for word in (id, "valid", "ada", "approver", "everything", "boss", "never")] == [
        True
    ] * 7
    assert secret.split("_", 2)[2] not in listed.stdout + tokens(folder, "list", "--json").stdout
    shown, _ = on_a_terminal("tokens", at=folder, NO_COLOR="1")
    assert [len(line) <= 80 for line in shown.splitlines()] == [True, True]  # a line for each
    assert tokens(folder, "revoke", id).stdout == f"{id} is revoked\n"
    assert "revoked" in tokens(folder, "list").stdout
    again = tokens(folder, "revoke", id)
    assert (again.returncode, again.stderr) == (
        1,
        f"changeover: there is no valid token '{id}'; see: changeover tokens list\n",
    )


def test_a_token_as_json(folder: Path):
    made = json.loads(tokens(folder, "add", "w", "--role", "worker", "--agent", "research", "--json").stdout)
    assert made["secret"].startswith(f"chg_{made['id']}_")
    [found] = [each for each in json.loads(tokens(folder, "list", "--json").stdout) if each["id"] == made["id"]]
    assert (found["user"], found["agents"], found["expires_at"]) == ("w", ["research"], None)
    assert "digest" not in found


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("add ada --role boss", 2, "'boss' is not one of"),
        ("add ada --role viewer --expires soon", 2, "'soon' is not a period, such as 12h or 90d"),
        ("add ada --role viewer --expires 0d", 1, "a token expires in the future"),
        ("add ada --role worker", 1, "names the agents whose tickets it claims"),
        ("add ada", 2, "--role"),
    ],
)
def test_what_cannot_work_is_refused(folder: Path, words: str, code: int, message: str):
    done = tokens(folder, *words.split())
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr.replace("\n", " ")
