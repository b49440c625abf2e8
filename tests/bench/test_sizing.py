"""The sizing page: what it computes follows from the costs that it shows."""

from bench.sizing import DAYS, LIMITS, PAGE, TABLE, measured, read, rewritten, sizes


def test_the_sizes_on_the_page_follow_from_its_costs():
    page = PAGE.read_text()
    assert [each["name"] for each in TABLE.finditer(page)] == ["costs", "sizes"]
    assert rewritten(page, read(page)) == page


def test_ten_times_the_costs_need_ten_times_as_much_and_break_something():
    found = read(PAGE.read_text())
    costly = sizes({name: 100 * value for name, value in found.items()})
    assert len(costly.rows) == len(DAYS)
    assert "times" in costly.rows[-1][1]
    assert measured(found).head[0] == "cost"


def test_the_limits_on_the_page_are_those_of_the_computation():
    page = PAGE.read_text()
    assert [limit.name for limit in LIMITS if f"| {limit.a_second:,.0f} a second |" not in page] == []
