"""Regression tests as jobs, by accounting and by queue: nodes found and chosen, arrays, a build, failure."""
import json
import subprocess
import time

SETTINGS = """
site_configuration = {
    "systems": [{
        "name": "spur", "hostnames": [".*"], "stagedir": "stage", "outputdir": "output",
        "partitions": [
            {
                "name": name, "scheduler": name, "launcher": "srun", "environs": ["builtin"], "max_jobs": 4,
                "access": ["--partition=gpu"], "sched_options": {"use_nodes_option": name == "slurm"},
                "resources": [{"name": "gpu", "options": ["--gpus-per-node={count}"]}],
            }
            for name in ("slurm", "squeue")
        ],
    }],
    "environments": [{"name": "builtin", "cc": "gcc"}],
}
"""
CHECKS = """
import os
import reframe as rfm
import reframe.utility.sanity as sn

class Base(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks = 2
    num_tasks_per_node = 1
    time_limit = "5m"
    executable = "sh"

@rfm.simple_test
class Ranks(Base):
    executable_opts = ["-c", "'echo rank $SLURM_PROCID of $SLURM_NTASKS on $SLURM_NNODES'"]
    reference = {"*": {"ranks": (2, -0.1, 0.1, "ranks")}}

    @sanity_function
    def ranks(self):
        return sn.assert_eq(sn.count(sn.findall(r"rank [01] of 2 on 2", self.stdout)), 2)

    @performance_function("ranks")
    def count(self):
        return sn.extractsingle(r"of (\\d)", self.stdout, 1, float)

@rfm.simple_test
class All(Base):
    num_tasks = 0
    executable_opts = ["-c", "'echo $SLURMD_NODENAME'"]

    @sanity_function
    def nodes(self):
        return sn.assert_eq(sn.count(sn.findall(r"^n\\d", self.stdout)), self.num_tasks)

@rfm.simple_test
class Devices(Base):
    num_tasks = 1
    extra_resources = {"gpu": {"count": 2}}
    executable_opts = ["-c", "'echo gpus $SLURM_GPUS_ON_NODE $CUDA_VISIBLE_DEVICES'"]

    @sanity_function
    def both(self):
        return sn.assert_found(r"gpus 2 0,1", self.stdout)

@rfm.simple_test
class Array(Base):
    num_tasks = 1
    executable_opts = ["-c", "'echo task $SLURM_ARRAY_TASK_ID'"]

    @run_before("run")
    def many(self):
        self.job.options = ["--array=0-3"]

    @sanity_function
    def tasks(self):
        return sn.assert_eq(sorted(sn.evaluate(sn.extractall(r"task (\\d)", self.stdout, 1, int))), [0, 1, 2, 3])

@rfm.simple_test
class Built(rfm.RegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    build_system = "SingleSource"
    sourcepath = "hello.c"
    sourcesdir = os.path.abspath("src")
    build_locally = False
    num_tasks = 2
    time_limit = "5m"

    @sanity_function
    def hello(self):
        return sn.assert_eq(sn.count(sn.findall("hello", self.stdout)), 2)

@rfm.simple_test
class Wrong(Base):
    executable_opts = ["-c", "'echo nothing'"]

    @sanity_function
    def wrong(self):
        return sn.assert_found("something", self.stdout)

@rfm.simple_test
class Code(Base):
    valid_systems = ["spur:slurm"]
    num_tasks = 1
    executable_opts = ["-c", "'exit 5'"]

    @sanity_function
    def code(self):
        return sn.assert_eq(self.job.exitcode, 5)

@rfm.simple_test
class Blocked(Base):
    num_tasks = 1
    max_pending_time = "2s"

    @sanity_function
    def never(self):
        return True
"""
CASES = {"Ranks": "pass", "All": "pass", "Devices": "pass", "Array": "pass", "Built": "pass", "Wrong": "fail", "Code": "pass"}
EVERYWHERE = [f"n{n}" for n in range(1, 5)]


def out(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def run(system, *options):
    """The cases of the tests that it ran, by name, and the exit code."""
    words = ["reframe", "-C", "settings.py", "-c", "checks.py", "-r", f"--report-file={system}.json", f"--system=spur:{system}"]
    ran = subprocess.run([*words, "-J", "mem=100M", *options], capture_output=True, text=True)
    report = json.load(open(f"{system}.json"))
    return [case for one in report["runs"] for case in one["testcases"]], ran.returncode


def blocked(system):
    """One that waits too long is cancelled: one for room, and one that may not start before an hour has passed."""
    blocker = out("sbatch", "--parsable", "-N4", "--exclusive", "-o/dev/null", "--wrap", "sleep 600").strip()
    for more in ([], ["-J", "begin=now+1hour"]):
        ((case,), code) = run(system, "-n", "^Blocked$", *more)
        assert (case["result"], code) == ("fail", 1), case
        shown = out("sacct", "-X", "-n", "-P", "-j", case["jobid"], "-o", "State,Start")
        assert shown.startswith("CANCELLED by") and shown.endswith("|None\n"), shown
    out("scancel", blocker)
    while out("squeue", "-h", "--me"):
        time.sleep(0.1)


def several(system):
    """By accounting also exit codes and nodes are known."""
    accounted = system == "slurm"
    # A flexible test takes the nodes that are there when it is submitted.
    cases, code = run(system, "-x", "^Blocked$", "--exec-policy=async", "--flex-alloc-nodes=all")
    due = {name: result for name, result in CASES.items() if accounted or name != "Code"}
    assert {case["name"]: case["result"] for case in cases} == due and code == 1, cases
    by_name = {case["name"]: case for case in cases}
    if accounted:
        assert by_name["All"]["job_nodelist"] == EVERYWHERE, by_name["All"]
        assert len(by_name["Ranks"]["job_nodelist"]) == 2, by_name["Ranks"]
        assert {name: case["job_exitcode"] for name, case in by_name.items()} == dict.fromkeys(CASES, 0) | {"Code": 5}
    assert "'something' not found" in by_name["Wrong"]["fail_reason"], by_name["Wrong"]


subprocess.run(["mkdir", "src"], check=True)
open("src/hello.c", "w").write('#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n')
open("settings.py", "w").write(SETTINGS)
open("checks.py", "w").write(CHECKS)
for system in ("slurm", "squeue"):
    several(system)
    print(f"* tests by {system}: nodes, GPUs, an array, a build, performance, failure")
    blocked(system)
    print(f"* tests by {system} that wait too long: cancelled")
cases, code = run("slurm", "-n", "^Devices", "--distribute=idle", "-J", "exclude=n2")
assert sorted(case["job_nodelist"] for case in cases) == [["n1"], ["n3"], ["n4"]] and code == 0, cases
cases, code = run("slurm", "-n", "^All$", "--flex-alloc-nodes=idle", "-J", "exclude=n2")
assert [case["job_nodelist"] for case in cases] == [["n1", "n3", "n4"]] and code == 0, cases
assert out("squeue", "-h", "--me") == ""
print("* on each free node, and on all free ones, without those excluded")
