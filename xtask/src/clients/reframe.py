"""Regression tests as jobs: reframe finds the nodes, submits, polls the accounting, and checks performance and failure."""
import json
import os
import subprocess

SETTINGS = """
site_configuration = {
    "systems": [{
        "name": "spur", "hostnames": [".*"], "stagedir": "stage", "outputdir": "output",
        "partitions": [{
            "name": "all", "scheduler": "slurm", "launcher": "srun", "environs": ["builtin"], "max_jobs": 4, "access": [],
        }],
    }],
    "environments": [{"name": "builtin"}],
}
"""
CHECKS = """
import reframe as rfm
import reframe.utility.sanity as sn

class Base(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks = 2
    num_tasks_per_node = 1
    time_limit = "5m"
    executable = "echo"

@rfm.simple_test
class Ranks(Base):
    executable = "sh"
    executable_opts = ["-c", "'echo rank $SLURM_PROCID of $SLURM_NTASKS'"]

    @sanity_function
    def ranks(self):
        return sn.assert_eq(sn.count(sn.findall(r"rank [01] of 2", self.stdout)), 2)

@rfm.simple_test
class All(Base):
    num_tasks = 0
    executable = "sh"
    executable_opts = ["-c", "'echo $SLURMD_NODENAME'"]

    @sanity_function
    def nodes(self):
        return sn.assert_eq(sn.count(sn.findall(r"^n\\d", self.stdout)), self.num_tasks)

@rfm.simple_test
class Wrong(Base):
    executable_opts = ["nothing"]

    @sanity_function
    def wrong(self):
        return sn.assert_found("something", self.stdout)
"""
open("settings.py", "w").write(SETTINGS)
open("checks.py", "w").write(CHECKS)
words = ["reframe", "-C", "settings.py", "-c", "checks.py", "-r", "--report-file=report.json", "-J", "mem=100M"]
# A flexible test takes the nodes that are free when it is submitted.
words += ["--exec-policy=serial", "--flex-alloc-nodes=avail"]
ran = subprocess.run(words, capture_output=True, text=True)
report = json.load(open("report.json"))
cases = {case["name"]: case["result"] for run in report["runs"] for case in run["testcases"]}
assert cases == {"Ranks": "pass", "All": "pass", "Wrong": "fail"}, (cases, ran.stdout, ran.stderr)
