"""A pipeline: research, write, review. Every step ends with a tool that says where the work goes next.

The order is plain Python, in the Commands that the tools return; the models only do the work of their step. The
result of each step travels as a reference in the artifacts, and the progress of the flow in the workflow state. Replies
are scripted, so this needs no key and no network.

    python examples/pipeline.py
"""

from changeover import END, Agent, Command, RunContext, Team
from changeover.testing import ScriptedModel, calls

SHELF: dict[str, str] = {}  # holds the texts; only references to them travel


def hand_in_notes(notes: str) -> Command:
    """Hand in what you found out."""
    SHELF["notes"] = notes
    progress = {"phase": "write", "done": ["research"], "remaining": ["write", "review"]}
    update = {"artifacts": {"notes": "shelf://notes", "draft": None}, "workflow_state": progress}
    return Command(goto="writer", update=update, message="One sentence from the notes, please.")


def hand_in_draft(text: str) -> Command:
    """Hand in what you wrote."""
    SHELF["draft"] = text
    progress = {"phase": "review", "done": ["research", "write"], "remaining": ["review"]}
    update = {"artifacts": {"draft": "shelf://draft"}, "workflow_state": progress}
    return Command(goto="reviewer", update=update, message="Is it true, and is it one sentence?")


def publish(ctx: RunContext) -> Command:
    """Publish the draft."""
    progress = {"phase": "published", "done": ["research", "write", "review"], "remaining": []}
    draft = SHELF[str(ctx.artifacts["draft"]).removeprefix("shelf://")]
    return Command(goto=END, update={"output": draft, "workflow_state": progress})


SCRIPT = {
    "researcher": [calls(("hand_in_notes", {"notes": "Air scatters short waves of light most, and blue is short."}))],
    "writer": [calls(("hand_in_draft", {"text": "The sky is blue because air scatters blue light most."}))],
    "reviewer": [calls(("publish", {}))],
}


def main() -> None:
    question = "Why is the sky blue?"
    researcher, writer = Agent("researcher", tools=[hand_in_notes]), Agent("writer", tools=[hand_in_draft])
    team = Team([researcher, writer, Agent("reviewer", tools=[publish])], model=ScriptedModel(SCRIPT))
    result = team.run_sync(question)
    print(f"{question}\n")
    for handoff in result.handoff_chain:
        print(f"  {handoff.sender:>10} ──▶ {handoff.receiver:<10} {handoff.tool}: {handoff.message}")
    print(f"\n{result.output}\n")
    print("  phase     ", result.workflow_state["phase"])
    print("  done      ", ", ".join(result.workflow_state["done"]))
    print("  artifacts ", ", ".join(f"{name} at {place}" for name, place in result.artifacts.items()))


if __name__ == "__main__":
    main()
