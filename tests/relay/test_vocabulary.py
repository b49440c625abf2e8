"""Every event has an entry in the tables of the fold and of the projection."""

from collections.abc import Mapping
from typing import Any, get_args

import pytest

from changeover.relay.events import Event, Unreadable
from changeover.relay.projection.projection import PROJECTIONS
from changeover.relay.state import IDLE, WORKING

VOCABULARY = {*get_args(Event), Unreadable}


@pytest.mark.parametrize(
    "table", [WORKING, IDLE, PROJECTIONS], ids=["fold of a run", "fold without a run", "projection"]
)
def test_every_event_type_is_in_the_tables_that_read_events(table: Mapping[type, Any]):
    assert VOCABULARY - set(table) == set()
    assert set(table) - VOCABULARY == set()
