"""The LLM server of the tests runs on the Node of the development tools, not on the machine's."""

import os
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.models.aimock import serving

STRESS = "CHANGEOVER_STRESS" in os.environ


@pytest.mark.stress
def test_without_node_on_the_path_the_one_in_the_wheel_serves_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    if STRESS:
        # An empty cache: npm has to come from the wheel as well.
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with serving([], tmp_path) as server:
        assert server.requests("anything") == []
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(server.url)
