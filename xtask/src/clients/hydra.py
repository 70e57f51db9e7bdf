"""A sweep of Hydra's as an array of jobs by submitit: one after the other, with CPUs and GPUs, and one that fails."""
import glob
import os
import subprocess
import sys

PROGRAM = """
import os
import hydra

@hydra.main(version_base=None)
def main(settings):
    told = [os.environ.get(name) for name in ("SLURM_ARRAY_TASK_ID", "SLURM_CPUS_PER_TASK", "SLURM_GPUS_ON_NODE")]
    print("given", settings.x, *told)
    if settings.x == 3:
        raise ValueError("three on purpose")

main()
"""
WORDS = [
    sys.executable, "program.py", "--multirun", "hydra/launcher=submitit_slurm", "hydra.launcher.timeout_min=5",
    "hydra.launcher.mem_gb=1", "hydra.launcher.cpus_per_task=2", "hydra.launcher.gpus_per_node=1", "hydra.sweep.dir=sweep",
    "hydra.launcher.array_parallelism=1", "hydra.launcher.name=sweep", "+hydra.launcher.additional_parameters.comment=mine",
]


def accounting(name, *columns):
    words = ["sacct", "-X", "-n", "-P", "--name", name, "-o", ",".join(columns)]
    return sorted(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


open("program.py", "w").write(PROGRAM)
ran = subprocess.run([*WORDS, "+x=1,2,4"], capture_output=True, text=True)
assert ran.returncode == 0, ran
said = [line for log in glob.glob("sweep/.submitit/*/*_log.out") for line in open(log) if line.startswith("given")]
assert sorted(said) == [f"given {x} {n} 2 1\n" for n, x in enumerate((1, 2, 4))], said
assert accounting("sweep", "State", "Comment") == ["COMPLETED|mine"] * 3
spans = sorted(line.split("|") for line in accounting("sweep", "Start", "End"))
assert all(ended <= started for (_, ended), (started, _) in zip(spans, spans[1:])), spans
print("* a sweep of three, one after the other")
ran = subprocess.run([*WORDS, "+x=3,5", "hydra.launcher.name=failing", "hydra.sweep.dir=failing"], capture_output=True, text=True)
assert ran.returncode == 1 and "three on purpose" in ran.stderr, ran
# The job brings the failure home, and so does not fail itself.
assert accounting("failing", "State") == ["COMPLETED"] * 2
assert os.path.exists("failing/1/program.log")
print("* a sweep of which one fails")
