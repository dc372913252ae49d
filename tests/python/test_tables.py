"""Tests of tables in other packages."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest
from conftest import SMALL, small

import samara


def test_tables_are_labelled_by_run(peerdas: samara.Result) -> None:
    table = peerdas.deliveries
    assert table.name == "deliveries" and table.columns[:4] == ["run", "seed", "node", "slot"]
    assert len(table) == 3 * 39 * 16 and table.nbytes > 0
    assert f"{len(table):,} rows" in repr(table)
    assert set(table.to_pandas()["run"]) == {"sequential", "batch", "node-wide"}
    assert len(peerdas.table("deliveries", run="batch")) == 39 * 16
    assert set(peerdas.tables) == {"deliveries", "copies", "traffic"}


def test_pyarrow_shares_the_memory(peerdas: samara.Result) -> None:
    table = peerdas.table("copies", run="batch")
    before = pa.total_allocated_bytes()
    once, twice = table.to_arrow(), pa.table(table)
    assert pa.total_allocated_bytes() == before, "nothing was copied"
    address = [a.column("at_ms").chunk(0).buffers()[1].address for a in (once, twice)]
    assert address[0] == address[1], "both share the same memory"
    assert once.schema.field("at_ms").type == pa.float64()
    assert once.schema.field("first").type == pa.bool_()
    assert pa.schema(table).names == table.columns


def test_memory_outlives_the_result() -> None:
    table = samara.run(small(), progress=False).copies.to_arrow()
    assert table.num_rows == len(table.to_pandas()) > 0 and table.validate(full=True) is None


def test_all_packages_read_the_same(peerdas: samara.Result) -> None:
    table = others = peerdas.deliveries
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == len(table)
    frames = [table.to_polars(), polars.DataFrame(table)]
    for other in frames:
        assert other.shape == frame.shape
        assert np.array_equal(other["delivery_latency_ms"].to_numpy(), frame["delivery_latency_ms"].to_numpy())
        assert other["run"].cast(polars.String).to_list() == frame["run"].astype(str).tolist()
    found = duckdb.sql("select run, count(*), max(hops) from others group by run order by run").fetchall()
    hops = frame.groupby("run", observed=True)["hops"].max()
    assert found == [(str(run), 39 * 16, int(hops[run])) for run in sorted(hops.index)]


def test_parquet_files_equal_the_tables(peerdas: samara.Result, tmp_path: Path) -> None:
    path = peerdas.write(tmp_path / "out")
    file = pyarrow.parquet.read_table(path / "runs/node-wide-seed1/deliveries.parquet")
    ours = peerdas.table("deliveries", run="node-wide").to_arrow().drop_columns(["run", "seed"])
    assert ours.combine_chunks() == file.combine_chunks()
    count = duckdb.sql(f"select count(*) from '{path}/runs/*/deliveries.parquet'").fetchall()
    assert count == [(len(peerdas.deliveries),)]


def test_lists_need_no_other_package(peerdas: samara.Result) -> None:
    table = peerdas.traffic
    columns = table.to_pydict()
    assert list(columns) == table.columns and all(len(column) == len(table) for column in columns.values())
    assert columns == table.to_arrow().to_pydict()
    assert table.to_pylist(2) == table.to_arrow().slice(0, 2).to_pylist()
    assert table._repr_html_().count("<tr>") == 1 + 8


def test_missing_values_are_dashes() -> None:
    late = samara.run("peerdas", only="batch", progress=False, **{**SMALL, "columns.deadline": "30 ms"})
    assert late.run("batch").metrics["time_to_custody_ms"] is None
    html = late.deliveries._repr_html_()
    assert "<td>–</td>" in html and "nan" not in html


def test_sweeps_add_columns_for_their_axes() -> None:
    scenario = small(
        sweep={
            "axis": [
                {"key": "columns.blobs", "values": [1, 2]},
                {"key": "network.bandwidth", "values": ["10 Mbit/s", "20 Mbit/s"]},
                {"key": "protocol.gossip_factor", "values": [0.25]},
            ]
        }
    )
    frame = samara.run(scenario, seed=[1, 2], progress=False).deliveries.to_pandas()
    assert list(frame.columns[:5]) == ["run", "seed", "columns.blobs", "network.bandwidth", "protocol.gossip_factor"]
    assert set(frame["columns.blobs"]) == {1, 2} and set(frame["protocol.gossip_factor"]) == {0.25}
    assert set(frame["network.bandwidth"]) == {"10 Mbit/s", "20 Mbit/s"}
    assert frame.groupby(["seed", "columns.blobs", "network.bandwidth"], observed=True).ngroups == 8


def test_metrics_are_a_table(two_seeds: samara.Result) -> None:
    frame = two_seeds.metrics.to_pandas()
    assert list(frame["seed"]) == [1, 2, 3] and "time_to_custody_ms.mean" in frame
    means = [run.metrics["time_to_custody_ms"]["mean"] for run in two_seeds.runs]
    assert frame["time_to_custody_ms.mean"].tolist() == means
    assert not {"point", "wall_s"} & set(frame.columns)


def test_metrics_by_class_are_a_table(peerdas: samara.Result) -> None:
    home = {"name": "home", "share": "50 %", "uplink": "5 Mbit/s", "downlink": "50 Mbit/s"}
    network = {"nodes": 20, "latency": "20 ms", "class": [home], "topology": {"degree": 6, "topic_peers_min": 4}}
    result = samara.run(small(network=network), seed=[1, 2], progress=False)
    frame = result.by_class.to_pandas()
    assert list(zip(frame["seed"], frame["class"])) == [(1, "home"), (1, "others"), (2, "home"), (2, "others")]
    found = result.runs[1].metrics["by_class"]["home"]
    assert frame["time_to_custody_ms.mean"][2] == found["time_to_custody_ms"]["mean"]
    assert frame["nodes"].tolist() == [10, 10, 10, 10]
    with pytest.raises(samara.TableError, match=r"no classes of nodes; a section \[\[network.class\]\]"):
        _ = peerdas.by_class


def test_streams_have_their_own_tables(streams: samara.Result) -> None:
    names = {"messages", "deliveries", "delivery_latency", "inter_arrival", "queue_drops", "traffic"}
    assert set(streams.tables) == names
    frame = streams.table("messages").to_pandas()
    assert len(frame) == 20 * len(streams.runs)
    with pytest.raises(samara.TableError, match="have no such table; they have deliveries, delivery_latency"):
        _ = streams.copies


def test_messages_have_deliveries(streams: samara.Result) -> None:
    assert streams.deliveries.columns == ["run", "seed", "message", "node", "delivery_latency_ms", "from", "hops"]
    for run in streams.runs:
        frame = streams.table("deliveries", run=run.name, seed=run.seed).to_pandas()
        messages = streams.table("messages", run=run.name, seed=run.seed).to_pandas()
        assert len(frame) == messages["delivered"].sum() > 0
        assert frame["hops"].min() >= 1 and not frame.duplicated(["message", "node"]).any()
        mean = run.metrics["delivery_latency_ms"]["mean"]
        assert frame["delivery_latency_ms"].mean() == pytest.approx(mean, rel=1e-3)


def test_pools_have_deliveries() -> None:
    result = samara.run(
        "cat", 1, only="cat", progress=False,
        **{"network.nodes": 12, "pool.duration": "2 s", "pool.block_interval": "1 s"},
    )
    frame, transactions = result.deliveries.to_pandas(), result.table("transactions").to_pandas()
    assert list(frame.columns) == ["run", "seed", "transaction", "node", "delivery_latency_ms", "from"]
    assert frame["from"].notna().all() and (frame["from"] != frame["node"]).all()
    expected = (transactions["pools"].astype(int) - 1).clip(lower=0)
    counts = frame.groupby("transaction").size().reindex(transactions["transaction"], fill_value=0)
    assert len(frame) > 0 and (counts.to_numpy() == expected.to_numpy()).all()
    mean = result.run("cat").metrics["delivery_latency_ms"]["mean"]
    assert frame["delivery_latency_ms"].mean() == pytest.approx(mean, rel=1e-3)


def test_groups_have_deliveries() -> None:
    result = samara.run("ring", 1, only="ring", progress=False, **{"group.messages": 50})
    frame, metrics = result.deliveries.to_pandas(), result.run("ring").metrics
    assert list(frame.columns) == ["run", "seed", "origin", "number", "node", "delivery_latency_ms", "from"]
    assert len(frame) == metrics["deliveries"] and not frame.duplicated(["origin", "number", "node"]).any()
    others = frame[frame["origin"] != frame["node"]]
    mean = metrics["delivery_latency_ms"]["mean"]
    assert others["delivery_latency_ms"].mean() == pytest.approx(mean, rel=1e-3)


def test_mixes_have_deliveries() -> None:
    result = samara.run("mix", 1, only="equal", progress=False, **{"mix.batch": 20, "mix.rounds": 8})
    frame, metrics = result.deliveries.to_pandas(), result.run("equal").metrics
    assert list(frame.columns) == ["run", "seed", "round", "team", "slots", "node", "delivery_latency_ms"]
    assert len(frame) == metrics["completed"] * metrics["team"] and set(frame["slots"]) == {20}
    rounds = result.table("rounds").to_pandas().set_index("round")["batch_latency_ms"]
    latest = frame.groupby("round")["delivery_latency_ms"].max()
    assert latest.to_numpy() == pytest.approx(rounds[latest.index].to_numpy())


def test_missing_tables_raise_the_reason(tmp_path: Path) -> None:
    result = samara.run("peerdas", only="batch", tables=["deliveries"], progress=False, **SMALL)
    assert len(result.deliveries) == 39 * 16
    with pytest.raises(samara.TableError, match=r"copies of batch, seed 1: its \d+ rows were not kept in memory; name it"):
        _ = result.copies
    with pytest.raises(samara.TableError, match="not kept"):
        result.write(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    few = samara.run("peerdas", only="batch", rows_max=100, out=tmp_path / "few", progress=False, **SMALL)
    assert len(few.traffic) == 40
    with pytest.raises(samara.TableError, match=r"not kept in memory; read .*few/runs/\*/deliveries.parquet"):
        _ = few.deliveries
    with pytest.raises(samara.TableError, match="there is no such run; the runs are batch, seed 1"):
        few.table("traffic", run="sequential")


def test_edges_and_custody(peerdas: samara.Result) -> None:
    edges = peerdas.edges.to_pandas()
    assert list(edges.columns) == ["run", "seed", "dialer", "listener"]
    of_runs = [frame[["dialer", "listener"]].to_numpy() for _, frame in edges.groupby("run", observed=True)]
    assert all(np.array_equal(of_runs[0], other) for other in of_runs), "all runs have the same graph"
    custody = peerdas.custody.to_pandas()
    kept = custody[custody["run"] == "batch"].groupby("node")["column"].nunique()
    assert kept[0] == 128 and set(kept[1:]) == {16}
    with pytest.raises(samara.TableError, match="make their own links"):
        _ = samara.Scenario.open("ring").load().edges
    with pytest.raises(samara.TableError, match="only blocks of columns"):
        _ = samara.Scenario.open("cat").load().custody


@pytest.mark.parametrize(
    ("scenario", "keys", "tables"),
    [
        ("cat", {"network.nodes": 12, "pool.duration": "2 s", "pool.block_interval": "1 s"}, {"transactions", "blocks"}),
        ("ring", {"group.messages": 50}, {"links", "suspicions", "delivery_latency"}),
        ("mix-batch", {"sweep.axis.0.values": [16]}, {"rounds", "phases", "work"}),
    ],
)
def test_other_scenarios_have_tables(scenario: str, keys: dict[str, object], tables: set[str]) -> None:
    names = [point["name"].split()[0] for point in samara.Scenario.open(scenario).load(**keys).points]
    result = samara.run(scenario, 1, only=names[0], progress=False, **keys)  # type: ignore[arg-type]
    assert tables <= set(result.tables)
    for name in result.tables:
        table = result.table(name)
        assert table.to_pydict() == table.to_arrow().to_pydict(), name
