"""Workflows whose rules are jobs: alone and in arrays, with memory, CPUs, GPUs and steps over nodes; retried, failed, interrupted."""
import csv
import glob
import os
import signal
import subprocess
import time

RULES = """
rule all:
    input: "sum.txt", "gpu.txt", "ranks.txt"

rule number:
    output: "n{n}.txt"
    resources: mem_mb=100, runtime=5
    shell: "echo {wildcards.n} > {output}; echo $SLURM_JOB_ID >> jobs"

rule sum:
    input: expand("n{n}.txt", n=range(4))
    output: "sum.txt"
    resources: mem_mb=100, runtime=5, slurm_partition="gpu", slurm_extra="'--nice=3'"
    threads: 2
    retries: 1
    shell: "test -e tried || {{ touch tried; exit 1; }}; cat {input} | paste -sd+ | $PY -c 'print(eval(input()))' > {output}; nproc >> {output}"

rule gpu:
    output: "gpu.txt"
    resources: mem_mb=100, runtime=5, gpu=1, gpu_model="h200"
    shell: "echo $CUDA_VISIBLE_DEVICES $SLURM_GPUS_ON_NODE > {output}"

rule ranks:
    output: "ranks.txt"
    resources: mem_mb=100, runtime=5, mpi="srun", nodes=2, tasks=4
    shell: "{resources.mpi} --mpi=none -n {resources.tasks} sh -c 'echo $SLURM_PROCID $SLURM_NNODES' > {output}"
"""
FAILING = """
rule all:
    input: "never.txt"

rule never:
    output: "never.txt"
    resources: mem_mb=100, runtime=5
    shell: "echo a last word; exit 9"
"""
LONG = """
rule all:
    input: expand("long{n}.txt", n=range(2))

rule long:
    output: "long{n}.txt"
    resources: mem_mb=100, runtime=5
    shell: "echo started > started{wildcards.n}; sleep 600"
"""
WORDS = [
    "snakemake", "--executor", "slurm", "--jobs", "4", "--default-resources", "slurm_account=root", "--latency-wait", "10",
    "--slurm-init-seconds-before-status-checks", "1", "--seconds-between-status-checks", "1",
]


def out(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def states(*options):
    return sorted(out("sacct", "-X", "-n", "-P", "-o", "State", *options).split("\n")[:-1])


def folder(name, rules):
    """A workflow in a folder of its own."""
    os.makedirs(name)
    open(f"{name}/Snakefile", "w").write(rules.replace("$PY", "python3"))
    return {"cwd": name, "env": dict(os.environ, HOME=os.path.abspath(name)), "text": True}


def run(name, rules, *options):
    return subprocess.run([*WORDS, *options], capture_output=True, **folder(name, rules))


def read(path):
    return open(path).read()


def whole(name, *options):
    before = len(states())
    ran = run(name, RULES, *options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert read(f"{name}/sum.txt") == "6\n2\n", read(f"{name}/sum.txt")
    devices, count = read(f"{name}/gpu.txt").split()
    assert count == "1" and "," not in devices, devices
    assert sorted(read(f"{name}/ranks.txt").splitlines()) == [f"{n} 2" for n in range(4)], read(f"{name}/ranks.txt")
    # The rule that fails first is tried again in a new job, or within the same one.
    found = [job.split()[0] for job in states()]
    assert len(found) - before in (7, 8) and found.count("COMPLETED") >= 7, found


def by_script():
    whole("script", "--slurm-pass-command-as-script", "--slurm-efficiency-report", "--slurm-keep-successful-logs")
    (report,) = glob.glob("script/*efficiency_report*.csv")
    rows = list(csv.DictReader(open(report)))
    assert len(rows) >= 6 and all(float(row["Elapsed_sec"]) >= 0 for row in rows), rows
    assert {"rule_sum", "rule_gpu"} <= {row["RuleName"] for row in rows}, rows
    print("* seven rules with memory, CPUs, a GPU and four ranks; one tried again; the report of their efficiency")


def in_arrays():
    tasks = lambda: {line for line in out("sacct", "-X", "-n", "-P", "-o", "JobID").splitlines() if "_" in line}
    before = tasks()
    whole("arrays", "--slurm-array-jobs=all", "--slurm-status-command=squeue")
    # snakemake puts those into an array that are ready when it looks.
    assert 2 <= len(tasks() - before) <= 4, tasks() - before
    assert len(set(read("arrays/jobs").split())) == 4
    print("* rules as an array, its states by squeue")


def failing():
    ran = run("failing", FAILING)
    assert ran.returncode == 1 and "never" in ran.stderr, ran
    (log,) = glob.glob("failing/.snakemake/slurm_logs/rule_never/**/*.log", recursive=True)
    job = os.path.basename(log).removesuffix(".log")
    assert "a last word" in read(log)
    assert states("-j", job) == ["FAILED"], states("-j", job)
    print("* a rule that fails, with its log")


def interrupted():
    before = sum(state.startswith("CANCELLED") for state in states())
    running = subprocess.Popen(WORDS, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **folder("long", LONG))
    while not all(os.path.exists(f"long/started{n}") for n in range(2)):
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.2)
    assert len(out("squeue", "-h", "--me").splitlines()) == 2
    running.send_signal(signal.SIGINT)
    assert running.wait(120) != 0
    while out("squeue", "-h", "--me"):
        time.sleep(0.2)
    assert sum(state.startswith("CANCELLED") for state in states()) == before + 2
    print("* a workflow interrupted: its jobs cancelled")


by_script()
in_arrays()
failing()
interrupted()
