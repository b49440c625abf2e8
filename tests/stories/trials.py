"""Stories of experiments: each conversation has its variant, and keeps it."""

from collections.abc import Sequence

from changeover import Agent, Full, MessageOnly, Team, delegate
from changeover.facts import Ledger
from changeover.guards import Deny, Rule
from changeover.guards.guard import ALLOW, Answer, Facts, Offer
from changeover.messages import Message
from changeover.relay.events import CallRefused, HandoffOffered, VariantChosen
from changeover.routing import Experiment
from changeover.testing import Reply, ScriptedModel, delegates, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.stories.delegates import asks, cast
from tests.stories.guards import tries_then_tells
from tests.stories.stage import Stage, events, story

STRATEGY = Experiment("how-much", {"all": Full(), "little": MessageOnly()}, agents=("billing",))
WORDS = Experiment("words", {"plain": "Be plain.", "fancy": "Be fancy."}, on="instructions", agents=("clerk",))
STAND_INS = Experiment("who", {"old": "billing", "new": "billing-2"}, on="receiver", agents=("billing",))


def conversations(experiment: Experiment) -> dict[str, str]:
    """One conversation for each variant."""
    names = [f"talk-{number}" for number in range(50)]
    return {name: next(each for each in names if experiment.variant_of(each) == name) for name in experiment.variants}


def says_its_name(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    return says(agent)


async def chosen(team: Team, conversation: str) -> list[tuple[str, str]]:
    return [(each.experiment, each.variant) for each in await events(team, VariantChosen, conversation)]


@story
async def a_strategy_is_tried_by_conversation_and_stays_so(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        seen = any("secret" in message.text for message in messages)
        return hands_off("billing", "Pay it.") if agent == "triage" else says(f"seen: {seen}")

    for variant, talk in conversations(STRATEGY).items():
        members = [Agent("triage"), Agent("billing")]
        team = stage.team(members, ScriptedModel(play), experiments=[STRATEGY])
        await stage.say(team, "the secret is 7", agent="billing", conversation=talk)
        for text in ("pay!", "pay again!"):
            result = await stage.say(team, text, agent="triage", conversation=talk)
            assert result.output == f"seen: {variant == 'all'}"
        assert await chosen(team, talk) == [("how-much", variant)]
        strategies = [offer.strategy for offer in await events(team, HandoffOffered, talk)]
        assert strategies == [STRATEGY.variants[variant].name] * 2


@story
async def a_delegate_is_told_as_much_as_the_variant_says(stage: Stage) -> None:
    for variant, talk in conversations(STRATEGY).items():
        model = cast(boss=asks(delegates("billing", "count")), billing=lambda messages: says(str(messages)))
        boss = Agent("boss", handoffs=[delegate("billing")])
        team = stage.team([boss, Agent("billing", handoffs=())], model, experiments=[STRATEGY])
        await stage.say(team, "count the secret", conversation=talk)
        assert [offer.strategy for offer in await events(team, HandoffOffered, talk)] == [
            STRATEGY.variants[variant].name
        ]
        assert await chosen(team, talk) == [("how-much", variant)]


@story
async def instructions_are_tried_by_conversation_and_stay_so(stage: Stage) -> None:
    for variant, talk in conversations(WORDS).items():
        clerk = Agent("clerk", instructions="Be yourself.")
        team = stage.team([clerk], cast(clerk=says("Well.")), experiments=[WORDS])
        for text in ("hello", "and now?"):
            await stage.say(team, text, conversation=talk)
        told = {each.instructions for each in stage.requests("clerk") if each.conversation == talk}
        assert told <= {WORDS.variants[variant]}
        assert await chosen(team, talk) == [("words", variant)]


@story
async def an_agent_outside_an_experiment_has_its_own_instructions(stage: Stage) -> None:
    model = cast(triage=hands_off("clerk", "yours"), clerk=says("Well."))
    team = stage.team(
        [Agent("triage", instructions="Sort."), Agent("clerk", instructions="Be yourself.")], model, experiments=[WORDS]
    )
    for variant, talk in conversations(WORDS).items():
        await stage.say(team, "hello", conversation=talk)
        assert await chosen(team, talk) == [("words", variant)]
    assert {each.instructions.partition("\n")[0] for each in stage.requests("triage")} <= {"Sort."}


@story
async def what_never_mattered_is_not_chosen(stage: Stage) -> None:
    members = [Agent("triage"), Agent("clerk"), Agent("billing"), Agent("billing-2")]
    team = stage.team(members, cast(triage=says("Alone.")), experiments=[WORDS, STRATEGY, STAND_INS])
    await stage.say(team, "hello", conversation="quiet")
    assert await chosen(team, "quiet") == []


@story
async def a_model_is_tried_by_conversation(stage: Stage) -> None:
    small, large = ScriptedModel(lambda *_: says("small")), ScriptedModel(lambda *_: says("large"))
    experiment = Experiment("size", {"small": small, "large": large}, on="model", agents=("clerk",))
    for variant, talk in conversations(experiment).items():
        team = stage.team(
            [Agent("triage"), Agent("clerk")], cast(triage=hands_off("clerk", "yours")), experiments=[experiment]
        )
        for text in ("hello", "and now?"):
            assert (await stage.say(team, text, conversation=talk)).output == variant
        assert await chosen(team, talk) == [("size", variant)]


@story
async def delegates_go_with_their_root(stage: Stage) -> None:
    small, large = ScriptedModel(lambda *_: says("small")), ScriptedModel(lambda *_: says("large"))
    experiment = Experiment("size", {"small": small, "large": large}, on="model", agents=("clerk",))
    for variant, talk in conversations(experiment).items():
        boss = Agent("boss", handoffs=[delegate("clerk")])
        model = cast(boss=asks(delegates("clerk", "count"), delegates("clerk", "count again")))
        team = stage.team([boss, Agent("clerk", handoffs=())], model, experiments=[experiment])
        result = await stage.say(team, "how many?", conversation=talk)
        assert result.output.count(f'"response":"{variant}"') == 2
        # Once for all of them, and before they begin.
        assert await chosen(team, talk) == [("size", variant)]


@story
async def a_receiver_is_tried_by_conversation(stage: Stage) -> None:
    for variant, talk in conversations(STAND_INS).items():
        members = [Agent("triage", handoffs=["billing"]), Agent("billing"), Agent("billing-2")]
        model = ScriptedModel(lambda agent, *_: hands_off("billing", "Pay.") if agent == "triage" else says(agent))
        team = stage.team(members, model, experiments=[STAND_INS])
        for text in ("pay!", "pay again!"):
            result = await stage.say(team, text, agent="triage", conversation=talk)
            assert result.output == STAND_INS.variants[variant]
        assert await chosen(team, talk) == [("who", variant)]


@story
async def guards_judge_the_receiver_that_is_tried(stage: Stage) -> None:
    class NotTheNewOne:
        def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
            return Deny("it is too new") if offer.receiver == "billing-2" else ALLOW

    for variant, talk in conversations(STAND_INS).items():
        model = cast(triage=tries_then_tells, billing=says("Paid."))
        members = [Agent("triage", handoffs=["billing"]), Agent("billing"), Agent("billing-2")]
        team = stage.team(members, model, experiments=[STAND_INS], guards=[NotTheNewOne()])
        result = await stage.say(team, "Pay!", conversation=talk)
        refused = [each.receiver for each in await events(team, CallRefused, talk)]
        assert (result.final_agent, refused) == (("billing", []) if variant == "old" else ("triage", ["billing-2"]))


@story
async def a_rule_leads_to_the_variant_of_its_receiver_and_no_further(stage: Stage) -> None:
    rule = Rule("to billing", if_=lambda ctx: True, goto="billing")
    for variant, talk in conversations(STAND_INS).items():
        members = [Agent("triage"), Agent("billing"), Agent("billing-2")]
        team = stage.team(members, ScriptedModel(says_its_name), experiments=[STAND_INS], rules=[rule])
        for text in ("pay!", "pay again!"):
            assert (await stage.say(team, text, conversation=talk)).output == STAND_INS.variants[variant]
        assert len(await events(team, HandoffOffered, talk)) == 1


@story
async def a_delegate_is_replaced_by_its_variant(stage: Stage) -> None:
    for variant, talk in conversations(STAND_INS).items():
        boss = Agent("boss", handoffs=[delegate("billing")])
        members = [boss, Agent("billing", handoffs=()), Agent("billing-2", handoffs=())]
        receiver = STAND_INS.variants[variant]
        model = cast(boss=asks(delegates("billing", "count")), **{receiver: says(f"by {receiver}")})
        team = stage.team(members, model, experiments=[STAND_INS])
        assert f'"response":"by {receiver}"' in (await stage.say(team, "How many?", conversation=talk)).output
        assert await chosen(team, talk) == [("who", variant)]
