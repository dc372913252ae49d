"""Runs the points of a sweep on a Ray cluster, for `samara sweep --engine ray`.

Reads one line of JSON, the job, from standard input; writes a line of JSON for everything that happens to standard output; ends
all that is under way when standard input is closed. A worker runs `samara point` in a process of its own. It takes the program from
its path if it is there (a file system that all share), and from Ray's object store otherwise.
"""

import base64
import collections
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading

# A folder "ray" where the sweep was started is not Ray.
sys.path = [place for place in sys.path if place]

# Ray, and whatever it uses, may print: only events go to standard output.
EVENTS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def tell(event, **fields):
    EVENTS.write(json.dumps({"event": event, **fields}) + "\n")
    EVENTS.flush()


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def run_point(shared, arguments):
    """A point, on a worker: its status, record, and what it had to say."""
    import ray

    shared = ray.get(shared[0]) if isinstance(shared, list) else shared
    program, wanted = shared["program"], shared["sha256"]
    if not os.path.isfile(program) or sha256(program) != wanted:
        # Readable by this user only, and checked before it is run: the directory may be everybody's.
        program = os.path.join(tempfile.gettempdir(), f"samara-{os.getuid()}-{wanted[:16]}")
        if not os.path.isfile(program) or sha256(program) != wanted:
            handle, fresh = tempfile.mkstemp(prefix="samara-")
            with os.fdopen(handle, "wb") as file:
                file.write(ray.get(shared["bytes"][0]))
            os.chmod(fresh, 0o700)
            os.replace(fresh, program)
    with tempfile.TemporaryDirectory(prefix="samara-point-") as place:
        for name, content in shared["files"].items():
            path = os.path.join(place, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(base64.b64decode(content))
        scenario = os.path.join(place, "scenario.toml")
        with open(scenario, "w") as file:
            file.write(shared["scenario"])
        command = [program, "point", scenario, *arguments, "--files", place, "--end-with-stdin"]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
            # The pipe closes when this worker is gone, and with it the point ends.
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=said)
            try:
                status = process.wait()
            finally:
                process.kill()
                process.wait()
            out.seek(0)
            said.seek(0)
            return {
                "status": status,
                "record": out.read().decode(),
                "said": said.read()[-4096:].decode(errors="replace").rstrip(),
            }


class Sweep:
    """The points of a job, and what has become of them."""

    def __init__(self, ray, job, stop):
        self.ray, self.job, self.stop = ray, job, stop
        self.points = job["points"]
        self.waiting = collections.deque(range(len(self.points)))
        self.under_way = {}
        self.attempts = collections.Counter()
        self.losses = collections.Counter()
        errors = ray.exceptions
        self.lost = (
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.LocalRayletDiedError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
        )
        # Lost points are run again here, and not by Ray, so that they can be counted.
        self.remote = ray.remote(num_cpus=1, max_retries=0)(run_point)
        with open(job["program"], "rb") as file:
            program = ray.put(file.read())
        shared = {key: job[key] for key in ("program", "sha256", "scenario", "files")}
        self.shared = ray.put({**shared, "bytes": [program]})
        self.program = program

    def room(self):
        """How many points may be under way: one for each processor, and two more so that none is idle."""
        cluster = int(self.ray.cluster_resources().get("CPU", 1)) + 2
        return min(self.job["jobs"] or cluster, cluster)

    def run(self):
        while (self.waiting or self.under_way) and not self.stop.is_set():
            room = self.room()
            while self.waiting and len(self.under_way) < room:
                place = self.waiting.popleft()
                reference = self.remote.remote([self.shared], self.points[place]["arguments"])
                self.under_way[reference] = place
                tell("started")
            ready, _ = self.ray.wait(list(self.under_way), num_returns=1, timeout=0.5)
            for reference in ready:
                self.ended(reference, self.under_way.pop(reference))
        for reference in self.under_way:
            self.ray.cancel(reference, force=True)
            tell("dropped")

    def ended(self, reference, place):
        try:
            result = self.ray.get(reference)
        except self.lost as error:
            self.losses[place] += 1
            why = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            if self.losses[place] < self.job["losses_max"]:
                tell("lost", place=place, why=why)
                self.waiting.append(place)
            else:
                tell("failed", place=place, why=f"its worker was lost {self.losses[place]} times: {why}")
            return
        except self.ray.exceptions.RayError as error:
            result = {"status": None, "record": "", "said": str(error)[-4096:]}
        if result["status"] == 0:
            tell("done", place=place, record=result["record"])
            return
        self.attempts[place] += 1
        status = result["status"]
        how = "its worker failed" if status is None else f"its process ended with status {status}"
        why = how + (f": {result['said']}" if result["said"] else "")
        # What is wrong with the input will be wrong with it again.
        if status != self.job["bad_input"] and self.attempts[place] < self.job["attempts_max"]:
            tell("again", place=place, why=why)
            self.waiting.append(place)
        else:
            tell("failed", place=place, why=why)


def main():
    job = json.loads(sys.stdin.readline())
    try:
        import ray
    except ImportError as error:
        version = ".".join(map(str, sys.version_info[:3]))
        tell("error", text=f"{sys.executable} (Python {version}) has no Ray ({error})")
        return 2
    stop = threading.Event()

    def watch():
        sys.stdin.read()
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    where = {"address": job["address"]} if job["address"] else {}
    try:
        ray.init(log_to_driver=False, logging_level="error", **where)
    except Exception as error:  # Ray raises errors of many kinds here.
        tell("error", text=f"no Ray cluster at {job['address'] or 'this machine'}: {error}")
        return 2
    nodes = [node for node in ray.nodes() if node["Alive"]]
    processors = ray.cluster_resources().get("CPU", 0)
    tell("cluster", version=ray.__version__, nodes=len(nodes), processors=processors)
    try:
        Sweep(ray, job, stop).run()
    except ray.exceptions.RayError as error:
        tell("error", text=f"the Ray cluster is gone: {error}")
        return 1
    finally:
        ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
