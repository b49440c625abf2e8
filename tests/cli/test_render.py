"""Tables, records and bars, and text that is safe to print."""

import pytest

from changeover.cli.exits import clean, one_line, say, tell
from changeover.cli.terminal.render import bar, print_record, print_table, warn_of_more

NASTY = "\x1b[2J\x9b31mred\x07\ttab\r\nnext\x00"


def test_text_for_a_terminal_keeps_newlines_and_loses_every_other_control_character():
    assert clean(NASTY) == "red tab\nnext"
    assert one_line(NASTY) == "red tab next"


def test_every_print_function_makes_its_text_safe(capsys: pytest.CaptureFixture[str]):
    say(NASTY)
    tell(NASTY)
    print_record({"name": NASTY})
    print_table([{"id": "a\x1b[2J", "text": NASTY}], "nothing")
    shown = capsys.readouterr()
    assert shown.err == "red tab\nnext\n"
    assert shown.out.isprintable() or set(filter(lambda c: not c.isprintable(), shown.out)) == {"\n"}
    assert shown.out.count("red tab\n") == 3


def test_a_list_that_is_cut_counts_its_rows(capsys: pytest.CaptureFixture[str]):
    for limit in (3, 2, 1):
        warn_of_more(["a", "b", "c"], limit)
    assert capsys.readouterr().err == (
        "There are more than 2 rows: raise --limit to see them.\nThere is more than 1 row: raise --limit to see them.\n"
    )


@pytest.mark.parametrize(("share", "plain", "blocks"), [(0, "....", ""), (0.5, "##..", "██"), (1, "####", "████")])
def test_a_bar_is_as_long_as_its_share(share: float, plain: str, blocks: str):
    assert (bar(share, 4), bar(share, 4, blocks=True)) == (plain, blocks)


def test_a_small_share_is_still_visible_in_blocks():
    assert bar(0.001, 4, blocks=True) == "▏"
