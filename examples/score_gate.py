"""A score gate: draft and score in a loop, until the score is good enough or three tries are used up.

The writer is an agent; the gate is a Function member that scores a draft in plain Python. It returns to the writer
with what is missing, or ends the run. The number of tries is kept in the workflow state, which travels with handoffs;
`max_handoffs` would stop a loop that never ends. Replies are scripted: no key, no network.

    python examples/score_gate.py
"""

from changeover import END, Agent, Command, Function, RunContext, Team
from changeover.testing import ScriptedModel, calls

POINTS = ["who", "when", "where"]
TRIES, ENOUGH = 3, 100


def submit(text: str) -> Command:
    """Submit a draft for scoring."""
    return Command(goto="gate", update={"context": {"draft": text}})


def gate(ctx: RunContext) -> Command:
    """Let a draft pass, or say what it lacks."""
    draft = ctx.context["draft"]
    missing = [point for point in POINTS if f"{point}:" not in draft]
    score = 100 * (len(POINTS) - len(missing)) // len(POINTS)
    tries = [*ctx.workflow_state.get("done", []), f"{score:>3} of 100  {draft}"]
    if score < ENOUGH and len(tries) < TRIES:
        progress = {"phase": "drafting", "done": tries, "remaining": missing}
        return Command("writer", {"workflow_state": progress}, message=f"It does not say {', '.join(missing)}.")
    progress = {"phase": "accepted" if score >= ENOUGH else "given up", "done": tries, "remaining": missing}
    return Command(END, {"output": draft, "workflow_state": progress})


DRAFTS = ["A party!", "A party! who: all of us", "A party! who: all of us, when: Friday, where: the roof"]


def play(drafts: list[str]) -> None:
    """One run of the loop: each try with its score and the verdict of the gate."""
    model = ScriptedModel({"writer": [calls(("submit", {"text": draft})) for draft in drafts]})
    result = Team([Agent("writer", tools=[submit]), Function("gate", gate)], model=model).run_sync("Invite everybody.")
    tries, back = result.workflow_state["done"], [h.message for h in result.handoff_chain if h.sender == "gate"]
    for number, tried in enumerate(tries):
        print(f"  try {number + 1}  {tried}")
        if number < len(back):
            print(f"         gate ──▶ writer: {back[number]}")
    print(f"  {result.workflow_state['phase']} after {len(tries)} tries\n")


def main() -> None:
    print("A writer that listens\n")
    play(DRAFTS)
    print("A writer that does not\n")
    play(["A party!"] * TRIES)


if __name__ == "__main__":
    main()
