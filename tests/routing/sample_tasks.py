"""Sixty tasks for these agents: plain ones, ones in other words, and ones that are nobody's."""

from typing import NamedTuple


class Task(NamedTuple):
    """What somebody wants done, and whose it is: one agent, either of two, or nobody."""

    text: str
    right: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


NAMED = (
    Task("I want a refund for the invoice of March", ("billing",)),
    Task("The payment for invoice 1042 was declined", ("billing",)),
    Task("The app crashes as soon as I open it", ("technical",)),
    Task("Login fails although my password is right", ("technical",)),
    Task("Why is the app so slow since this morning?", ("technical",)),
    Task("Track my parcel", ("shipping",)),
    Task("The delivery was promised for Monday and nothing came", ("shipping",)),
    Task("I would like to return two of the three jackets", ("shipping",)),
    Task("Review the contract with our new supplier", ("legal",)),
    Task("Do our licences allow us to sell the library?", ("legal",)),
    Task("How many days of holiday do I have left?", ("people",)),
    Task("My payroll statement lacks the overtime", ("people", "billing")),
    Task("A chart of sales by region, please", ("data",)),
    Task("An SQL query that counts customers by country", ("data",)),
    Task("Write a newsletter about the summer sale", ("editor",)),
    Task("Correct the blog post on our anniversary", ("editor",)),
    Task("A press release for the opening in Vienna", ("editor",)),
    Task("Two flights to Oslo next Thursday", ("travel",)),
    Task("I need a hotel near the fair in Milan", ("travel",)),
)
"""Those that use a word of the right description."""

MISLEADING = (
    Task("The refund button in the app does nothing", ("technical", "billing")),
    Task("The tracking page shows an error 500", ("technical", "shipping")),
    Task("I cannot log in to pay my invoice", ("technical", "billing")),
    Task("The hotel charged the company card twice", ("billing", "travel")),
    Task("Draft a contract for a freelance photographer", ("legal",)),
    Task("A report on how many parcels come back, by month", ("data",)),
    Task("Write the job advertisement for a second accountant", ("people", "editor")),
    Task("May we keep the addresses of people who cancelled their newsletter?", ("legal",)),
    Task("The train was late and I missed the meeting, can I have the ticket paid back?", ("travel", "billing")),
)
"""Those that use words of somebody else's."""

OTHERWISE = (
    Task("You took the money twice", ("billing",)),
    Task("There is a charge of 49 euros on my card that I do not recognise", ("billing",)),
    Task("It freezes whenever I press save", ("technical",)),
    Task("I forgot my password", ("technical",)),
    Task("The spinner never stops turning", ("technical",)),
    Task("The box arrived with a dent in it", ("shipping",)),
    Task("When will the courier be at my door?", ("shipping",)),
    Task("These shoes are too small, I need them in 44", ("shipping",)),
    Task("Is the clause about liability any good for us?", ("legal",)),
    Task("A former user wants us to erase everything we know about her", ("legal",)),
    Task("I am going to be a father in May, how long may I stay at home?", ("people",)),
    Task("When is my salary paid?", ("people",)),
    Task("Make a graph of how we grew since 2019", ("data",)),
    Task("Which of our products lost the most buyers this quarter?", ("data",)),
    Task("Polish this paragraph until it sings", ("editor",)),
    Task("We need three lines for social media on the new shop", ("editor",)),
    Task("How do I get from Berlin to Prague before nine in the morning?", ("travel",)),
    Task("A room for two nights close to the airport", ("travel",)),
)
"""Those that say it in words of their own."""

TITLED = (
    Task("The numbers of the last quarter", ("data",), ("Python", "SQL")),
    Task("Something for the board meeting", ("legal",), ("contract review",)),
    Task("human-resources", ("people",)),
    Task("Proofreading", ("editor",)),
)
"""Those that say what whoever takes them has to be able to do."""

NOBODYS = (
    Task("What will the weather be on Sunday?"),
    Task("Tell me a joke about penguins"),
    Task("My dog has a fever and does not eat"),
    Task("How do I get red wine out of a carpet?"),
    Task("Solve x squared minus five x plus six equals zero"),
    Task("Who won the football match last night?"),
    Task("What does the second law of thermodynamics say?"),
    Task("A recipe for lentil soup, please"),
    Task("Which chords does the song have that I hear on every train?"),
)
"""Those that are nobody's, also where one word of them is somebody's."""

LACKING = (Task("Translate the manual", required=("japanese",)),)
"""What is required, nobody has."""

TASKS = (*NAMED, *MISLEADING, *OTHERWISE, *TITLED, *NOBODYS, *LACKING)
