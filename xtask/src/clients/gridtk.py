"""Jobs kept in a list: commands, arrays, some that wait for others, resubmitted, stopped; their states by squeue and sacct."""
import json
import os
import subprocess
import time

DONE, WAITS, RUNS, CANCELLED = ("COMPLETED", "0"), ("PENDING", "0"), ("RUNNING", "0"), ("CANCELLED", "0")


def grid(*words):
    ran = subprocess.run(["gridtk", *words], capture_output=True, text=True)
    assert ran.returncode == 0, ran
    return ran.stdout


def states():
    return {row["job_id"]: (row["state"], row["exit_code"]) for row in json.loads(grid("list", "--json"))}


def until(wanted):
    end = time.time() + 60
    while (found := states()) != wanted:
        assert time.time() < end, (found, wanted)
        time.sleep(0.3)


def submit(*words):
    return int(grid("submit", *words))


one = submit("---", "echo", "hello")
array = submit("--array", "0-2", "--cpus-per-task", "2", "--wrap", "echo task $SLURM_ARRAY_TASK_ID of $SLURM_CPUS_PER_TASK")
failed = submit("--job-name", "flaky", "--wrap", "test -e ready || exit 3")
# After a failure only what asks for any end goes on.
after = submit("--dependency", f"afterany:{failed}", "--gres", "gpu:1", "--wrap", "echo $SLURM_GPUS_ON_NODE")
never = submit("--dependency", f"afterok:{failed}", "--wrap", "echo never")
due = {one: DONE, array: DONE, failed: ("FAILED", "3"), after: DONE}
until(due | {never: WAITS})
reports = grid("report")
assert all(words in reports for words in ("hello", *(f"task {n} of 2" for n in range(3)), "Nodes: n1")), reports
print("* a command, an array, an exit code, jobs after others")
open("ready", "w").close()
grid("resubmit", "--jobs", str(failed))
grid("stop", "--jobs", str(never))
until(due | {failed: DONE, never: CANCELLED})
long = submit("--time", "5", "--wrap", "sleep 600")
until(due | {failed: DONE, never: CANCELLED, long: RUNS})
grid("stop", "--jobs", str(long))
until(due | {failed: DONE, never: CANCELLED, long: CANCELLED})
print("* one resubmitted, one stopped as it waits, one as it runs")
