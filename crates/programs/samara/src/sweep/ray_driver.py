"""Runs the points of a sweep on a Ray cluster, for `samara sweep --engine ray`.

Reads the job from standard input, one line of JSON. Writes one line of JSON per event to standard
output. Cancels all running points when standard input closes.

A worker runs `samara point` in a separate process. It takes the program from its path if the
machine has the same one there (on a shared file system), and from Ray's object store otherwise.
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

# A folder "ray" in the working directory must not hide the package.
sys.path = [place for place in sys.path if place]

# Ray and its libraries print to standard output. This redirects them to standard error.
EVENTS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def report(event, **fields):
    EVENTS.write(json.dumps({"event": event, **fields}) + "\n")
    EVENTS.flush()


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def run_point(shared, arguments):
    """Runs a point on a worker. Returns its exit status, record and error output."""
    import ray

    shared = ray.get(shared[0]) if isinstance(shared, list) else shared
    program, wanted = shared["program"], shared["sha256"]
    if not os.path.isfile(program) or sha256(program) != wanted:
        # The directory may be writable by others: the file is private, and checked before it runs.
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
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            # The pipe closes when this worker ends, which stops the point.
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=errors)
            try:
                status = process.wait()
            finally:
                process.kill()
                process.wait()
            out.seek(0)
            errors.seek(0)
            return {
                "status": status,
                "record": out.read().decode(),
                "output": errors.read()[-4096:].decode(errors="replace").rstrip(),
            }


class Sweep:
    """The points of a job and their state."""

    def __init__(self, ray, job, stop):
        self.ray, self.job, self.stop = ray, job, stop
        self.points = job["points"]
        self.waiting = collections.deque(range(len(self.points)))
        self.running = {}
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
        # This class reruns lost points instead of Ray, so that it can count the losses.
        self.remote = ray.remote(num_cpus=1, max_retries=0)(run_point)
        with open(job["program"], "rb") as file:
            program = ray.put(file.read())
        shared = {key: job[key] for key in ("program", "sha256", "scenario", "files")}
        self.shared = ray.put({**shared, "bytes": [program]})
        self.program = program

    def room(self):
        """Maximum number of running points: one per processor, and two more to keep all busy."""
        cluster = int(self.ray.cluster_resources().get("CPU", 1)) + 2
        return min(self.job["jobs"] or cluster, cluster)

    def run(self):
        while (self.waiting or self.running) and not self.stop.is_set():
            room = self.room()
            while self.waiting and len(self.running) < room:
                place = self.waiting.popleft()
                reference = self.remote.remote([self.shared], self.points[place]["arguments"])
                self.running[reference] = place
                report("started")
            ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=0.5)
            for reference in ready:
                self.ended(reference, self.running.pop(reference))
        for reference in self.running:
            self.ray.cancel(reference, force=True)
            report("dropped")

    def ended(self, reference, place):
        try:
            result = self.ray.get(reference)
        except self.lost as error:
            self.losses[place] += 1
            why = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            if self.losses[place] < self.job["losses_max"]:
                report("lost", place=place, why=why)
                self.waiting.append(place)
            else:
                report("failed", place=place, why=f"its worker was lost {self.losses[place]} times: {why}")
            return
        except self.ray.exceptions.RayError as error:
            result = {"status": None, "record": "", "output": str(error)[-4096:]}
        if result["status"] == 0:
            report("done", place=place, record=result["record"])
            return
        self.attempts[place] += 1
        status = result["status"]
        how = "its worker failed" if status is None else f"its process ended with status {status}"
        why = how + (f": {result['output']}" if result["output"] else "")
        # Wrong input will fail again.
        if status != self.job["bad_input"] and self.attempts[place] < self.job["attempts_max"]:
            report("again", place=place, why=why)
            self.waiting.append(place)
        else:
            report("failed", place=place, why=why)


def main():
    job = json.loads(sys.stdin.readline())
    try:
        import ray
    except ImportError as error:
        version = ".".join(map(str, sys.version_info[:3]))
        report("error", text=f"{sys.executable} (Python {version}) has no Ray ({error})")
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
    except Exception as error:  # Ray raises many types here.
        report("error", text=f"cannot connect to a Ray cluster at {job['address'] or 'this machine'}: {error}")
        return 2
    nodes = [node for node in ray.nodes() if node["Alive"]]
    processors = ray.cluster_resources().get("CPU", 0)
    report("cluster", version=ray.__version__, nodes=len(nodes), processors=processors)
    try:
        Sweep(ray, job, stop).run()
    except ray.exceptions.RayError as error:
        report("error", text=f"the Ray cluster is gone: {error}")
        return 1
    finally:
        ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
