"""Fixtures: small scenarios, each run once."""

from __future__ import annotations

import pytest

import samara

#: Each run takes about a tenth of a second.
SMALL = {"network.nodes": 40, "network.topology.degree": 12}


@pytest.fixture(scope="session")
def peerdas() -> samara.Result:
    return samara.run("peerdas", only=["sequential", "batch", "node-wide"], progress=False, **SMALL)


@pytest.fixture(scope="session")
def two_seeds() -> samara.Result:
    return samara.run("peerdas", seed=[1, 2, 3], only="batch", progress=False, **SMALL)


@pytest.fixture(scope="session")
def streams() -> samara.Result:
    return samara.run("gossip-baselines", progress=False, **{"messages.duration": "1 s", "messages.rate": 20.0})


def small(**sections: object) -> samara.Scenario:
    """Returns a scenario with few nodes, defined in code."""
    about: dict[str, object] = {
        "network": {"nodes": 20, "latency": "20 ms", "topology": {"degree": 6, "topic_peers_min": 4}},
        "columns": {"blobs": 1, "count": 16, "custody": 4, "warm_up": "5 s", "deadline": "20 s"},
    }
    return samara.Scenario("small", **{**about, **sections})
