"""`experiments list` and `show`: people see what was tried, and how sure it is what came of it."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest

from changeover import Agent, Team
from changeover.errors import ModelError
from changeover.routing import Experiment
from changeover.testing import ScriptedModel, fails, says
from tests.cli.process import changeover

DECLARED = """
from changeover import Agent, Team
from changeover.routing import Experiment

sizes = Experiment("size", {"small": "offline", "large": "offline"}, on="model", lower_is_better=("complaints",))
team = Team([Agent("clerk")], model="offline", experiments=[sizes])
"""

TALKS = [f"c{number}" for number in range(24)]
SIZES = Experiment(
    "size",
    {
        "small": ScriptedModel(lambda *_: fails("out", retryable=False)),
        "large": ScriptedModel(lambda *_: says("Done.")),
    },
    on="model",
)
CHOSEN = [SIZES.variant_of(talk) for talk in TALKS]
SMALL, LARGE = CHOSEN.count("small"), CHOSEN.count("large")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, on which small models fail and large ones do not; and with the team that tries them."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "team.py").write_text(DECLARED)

    async def work() -> None:
        store = f"sqlite:///{folder / 'changeover.db'}"
        team = Team([Agent("clerk")], model="offline", store=store, experiments=[SIZES])
        for talk in TALKS:
            with suppress(ModelError):
                await team.run("go", conversation=talk)
            await team.measure(talk, "complaints", len(talk) % 2)
        await team.close()

    asyncio.run(work())
    return folder


def test_a_list_shows_the_verdict_of_each_experiment(shop: Path):
    listed = changeover("experiments", "list", at=shop)
    assert (listed.returncode, listed.stderr) == (0, "")
    head, line = listed.stdout.splitlines()
    assert head.split() == ["experiment", "variants", "verdict"]
    assert line.startswith(f"size        large {LARGE}, small {SMALL}  large is better by 100 points (95 %: ")


def test_an_experiment_is_shown_with_counts_rates_intervals_and_one_sentence(shop: Path):
    shown = changeover("experiments", "show", "size", "--team", "team.py:team", at=shop)
    assert (shown.returncode, shown.stderr) == (0, "")
    head, first, second, compared, sentence = shown.stdout.splitlines()
    assert head.split() == ["variant", "conversations", "success", "95", "%", "between"]
    assert first.split()[:4] == ["small", str(SMALL), "0.0", "%"]
    assert second.split()[:4] == ["large", str(LARGE), "100.0", "%"]
    assert compared.startswith("large against small: +100.0 points, between ")
    assert sentence.startswith("large is better by 100 points (95 %: ")


def test_programs_get_the_same_as_json(shop: Path):
    shown = json.loads(changeover("experiments", "show", "size", "--json", at=shop).stdout)
    assert (shown["experiment"], shown["measure"], shown["confidence"]) == ("size", "success", 0.95)
    arms = [(arm["variant"], arm["n"], arm["mean"]) for arm in shown["arms"]]
    assert arms == [("large", LARGE, 1.0), ("small", SMALL, 0.0)]
    assert shown["comparisons"][0]["better"] == "large"
    listed = json.loads(changeover("experiments", "list", "--json", at=shop).stdout)
    assert listed == [shown]


def test_custom_measures_are_shown_too(shop: Path):
    shown = changeover("experiments", "show", "size", "--measure", "complaints", at=shop)
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[0].split()[2:4] == ["mean", "complaints"]
    assert f"not yet distinguishable ({LARGE} and {SMALL} conversations)" in shown.stdout


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("nothing",), "no experiment is called 'nothing'; this store has: size"),
        (
            ("size", "--measure", "joy"),
            "no conversation has the measure 'joy'; choose one of success, tokens, cost, seconds, complaints",
        ),
    ],
)
def test_an_unknown_experiment_or_measure_is_an_error(shop: Path, asked: tuple[str, ...], told: str):
    shown = changeover("experiments", "show", *asked, at=shop)
    assert (shown.returncode, shown.stdout) == (1, "")
    assert told in shown.stderr


def test_a_store_without_experiments_says_so(tmp_path: Path):
    assert changeover("db", "upgrade", at=tmp_path).returncode == 0
    done = changeover("experiments", "list", at=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no experiments\n")
