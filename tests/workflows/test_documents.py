"""Workflows as data: YAML, rows of a store with versions, and back."""

from typing import Any

import pytest

from changeover import Agent, Approval, Function, Limits, Team
from changeover.documents.team_document import read_team
from changeover.documents.yaml_value import DocumentError
from changeover.errors import MisconfiguredError
from changeover.exchange import code_export
from changeover.relay.ports.declarations import Edit
from changeover.testing import ScriptedModel, says
from changeover.workflows import Retry, Workflow, WorkflowStep

YAML = """
agents:
  generalist: {description: Coordinates.}
  tester: {}
workflows:
  smart-deploy:
    name: Smart deployment
    limits: {max_turns: 30}
    output: steps.deploy.text
    steps:
      - {id: coordinate, agent: generalist, input: "Deploy {inputs.version}"}
      - {id: tests, agent: tester, after: [coordinate], for_each: steps.coordinate.output.services, concurrency: 5}
      - id: deploy
        agent: generalist
        after: [tests]
        when: length(steps.tests.output) > `0`
        context: {version: inputs.version}
        retry: {times: 2, wait: 5}
        timeout: 60
        approval: {roles: [manager]}
        on_rollback: tester
"""
DECLARED = Workflow(
    "smart-deploy",
    name="Smart deployment",
    limits=Limits(max_turns=30),
    output="steps.deploy.text",
    steps=[
        WorkflowStep("coordinate", agent="generalist", input="Deploy {inputs.version}"),
        WorkflowStep(
            "tests",
            agent="tester",
            after=["coordinate"],
            for_each="steps.coordinate.output.services",
            concurrency=5,
        ),
        WorkflowStep(
            "deploy",
            agent="generalist",
            after=["tests"],
            when="length(steps.tests.output) > `0`",
            context={"version": "inputs.version"},
            retry=Retry(2, wait=5),
            timeout=60,
            approval=Approval(roles=("manager",)),
            on_rollback="tester",
        ),
    ],
)


def test_a_workflow_in_yaml_is_the_one_that_code_declares_and_is_written_as_it_was():
    document = read_team(YAML, "team.yaml")
    assert document.options["workflows"] == (DECLARED,)
    team = Team(document.members, model=ScriptedModel({}), **document.options)
    written = code_export(team.declared).document["workflows"]
    again = read_team(str({"agents": {"generalist": {}, "tester": {}}, "workflows": written}), "again")
    assert again.options["workflows"] == (DECLARED,)


def test_faults_of_a_document_have_their_places():
    wrong = YAML.replace("agent: tester", "agent: nobody").replace("after: [tests]", "after: [gone]")
    with pytest.raises(DocumentError) as caught:
        read_team(wrong, "team.yaml")
    steps = "workflow 'smart-deploy' step"
    assert caught.value.faults == (
        f"team.yaml, line 12, column 9: {steps} 'tests' has the agent 'nobody', which is not in the team; "
        "choose among generalist, tester",
        f"team.yaml, line 13, column 9: {steps} 'deploy' comes after 'gone', and there is no such step; "
        "choose among coordinate, deploy, tests",
        f"team.yaml, line 13, column 9: {steps} 'deploy' has when='length(steps.tests.output) > `0`': "
        "the step 'tests' does not come before it; name it in after=…",
    )


def test_what_only_code_can_express_is_named_when_a_workflow_is_written():
    flow = Workflow("flow", steps=[WorkflowStep("a", function=lambda ctx: 1), WorkflowStep("b", agent="chef")])
    team = Team([Agent("chef")], model=ScriptedModel({}), workflows=[flow])
    export = code_export(team.declared)
    assert export.document["workflows"]["flow"]["steps"] == [{"id": "a"}, {"id": "b", "agent": "chef"}]
    assert [each.partition(":")[0] for each in export.left_out] == [
        "model",
        "workflows.flow.steps[0].function",
    ]


ROW: dict[str, Any] = {"steps": [{"id": "greet", "agent": "chef", "input": "first"}]}


async def test_a_row_of_the_store_declares_a_workflow_with_versions(tmp_path: Any):
    def play(agent: str, messages: Any, tools: Any) -> Any:
        return says(f"{agent}: {messages[-1].text}")

    url = f"sqlite:///{tmp_path / 'store.db'}"
    code = Workflow("own", steps=[WorkflowStep("taste", function="taste")])
    members: list[Any] = [Agent("chef"), Function("taste", lambda ctx: "good")]
    async with Team(members, model=ScriptedModel(play), store=url, workflows=[code]) as team:
        await team.declarations.put("workflow", "flow", ROW, by="ana")
        assert (await team.run_workflow("flow")).output == "chef: first"
        second = {"steps": [{**ROW["steps"][0], "input": "second"}]}
        row = await team.declarations.put("workflow", "flow", second, expected=1)
        assert (row.version, (await team.run_workflow("flow")).output) == (2, "chef: second")
        assert (await team.run_workflow("own")).output == "good"
        wrong = {"steps": [{"id": "greet", "agent": "nobody"}]}
        with pytest.raises(MisconfiguredError, match="nobody"):
            await team.declarations.write([Edit("workflow", "flow", wrong)])
        await team.declarations.set_state("workflow", "flow", "removed")
        await team.engine.world()
        with pytest.raises(MisconfiguredError, match="no workflow is called 'flow'; this team has: own"):
            await team.run_workflow("flow")
        assert len(await team.declarations.history("workflow", "flow")) == 3
