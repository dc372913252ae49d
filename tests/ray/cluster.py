#!/usr/bin/env python3
"""Tests `samara sweep --engine ray` on a cluster of several raylets on this machine.

Usage: cluster.py SAMARA          (needs `pip install 'ray>=2.51'`)

Starts a head without processors and two more raylets with two each, and runs a sweep on them. Kills
one of the two, with its workers, after the first points. Checks that all points are finished, that
lost ones were counted, and that every point equals that of a local sweep. Repeats the sweep with an
interrupt, and with a program that is missing where workers look for it.

Without Ray it tests nothing and returns status 0, unless SAMARA_REQUIRE_PEERS=1.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

SCENARIO = ["peerdas", "--only", "batch", "--only", "node-wide", "--set", "network.nodes=150", "--grid"]
GRID = ["network.uplink=10 Mbit/s,20 Mbit/s,50 Mbit/s", "--seeds", "6", "--quiet"]
POINTS = 36


def points(directory):
    records = [json.loads(path.read_text()) for path in (directory / "points").glob("*.json")]
    return {record["id"]: (record["digest"], json.dumps(record["metrics"])) for record in records}


def wait_for(directory, count):
    until = time.monotonic() + 120
    while len(list((directory / "points").glob("*.json"))) < count:
        assert time.monotonic() < until, f"fewer than {count} points after two minutes"
        time.sleep(0.05)


def start(samara, directory, address, quiet=True):
    sweep = [*SCENARIO, *(GRID if quiet else GRID[:-1])]
    command = [samara, "sweep", *sweep, "--out", str(directory), "--engine", "ray", "--address", address]
    command += ["--python", sys.executable]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(process, expected=0):
    _, errors = process.communicate(timeout=400)
    assert process.returncode == expected, f"status {process.returncode}: {errors}"
    return errors


def main():
    samara = str(pathlib.Path(sys.argv[1]).resolve())
    try:
        import ray
        from ray.cluster_utils import Cluster
    except ImportError as error:
        print(f"SKIPPED: no Ray ({error}); pip install 'ray>=2.51'", file=sys.stderr)
        return 1 if os.environ.get("SAMARA_REQUIRE_PEERS") == "1" else 0
    print(f"Ray {ray.__version__}")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        first, second = (cluster.add_node(num_cpus=2) for _ in range(2))
        with tempfile.TemporaryDirectory(prefix="samara-ray-") as place:
            place = pathlib.Path(place)
            check(samara, cluster, first, place)
    finally:
        cluster.shutdown()
    return 0


def check(samara, cluster, first, place):
    here = place / "here"
    subprocess.run([samara, "sweep", *SCENARIO, *GRID, "--out", here], check=True, stdout=subprocess.DEVNULL)
    local = points(here)
    assert len(local) == POINTS

    process = start(samara, place / "cluster", cluster.address, quiet=False)
    wait_for(place / "cluster", 4)
    cluster.remove_node(first, allow_graceful=False)
    errors = finish(process)
    print(errors, end="")
    assert "was lost with its worker and runs again" in errors, "no point was lost"
    assert points(place / "cluster") == local, "points of the cluster differ from those of this machine"
    print("ok: a raylet was killed, all points are finished and equal")

    cluster.add_node(num_cpus=2)
    process = start(samara, place / "stopped", cluster.address)
    wait_for(place / "stopped", 3)
    process.send_signal(signal.SIGINT)
    finish(process, expected=130)
    before = points(place / "stopped")
    assert 3 <= len(before) < POINTS, len(before)
    finish(start(samara, place / "stopped", cluster.address))
    assert points(place / "stopped") == local
    print(f"ok: interrupted after {len(before)} points, continued, and equal")

    # Only the driver has this path: workers must take the program from the object store.
    moved = place / "samara-of-the-driver"
    moved.write_bytes(pathlib.Path(samara).read_bytes())
    moved.chmod(0o700)
    process = start(str(moved), place / "moved", cluster.address)
    wait_for(place / "moved", 1)
    moved.unlink()
    finish(process)
    assert points(place / "moved") == local
    print("ok: workers took the program from the object store")


if __name__ == "__main__":
    sys.exit(main())
