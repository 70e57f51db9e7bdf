"""MPICH's programs by srun, as they are and with the kind named, and by MPICH's own starter."""
import os
import subprocess
from pathlib import Path


def out(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout


os.environ["HOME"] = os.getcwd()
subprocess.run(["mpicc.mpich", "-o", "ring", Path(__file__).with_name("ring.c")], check=True)
due = [f"rank {rank} of 4 on n{rank // 2 + 1}: sum 10" + ("" if rank else ", token ok") for rank in range(4)]
for words in [
    ["srun", "-N2", "-n4"],
    ["srun", "-N2", "-n4", "--mpi=pmi2"],
    ["salloc", "-Q", "-N2", "-n4", "srun"],
    ["salloc", "-Q", "-N2", "-n4", "mpirun.mpich"],
    ["salloc", "-Q", "-N2", "-n4", "mpirun.mpich", "-n", "4"],
]:
    said = sorted(out(*words, "./ring").splitlines())
    assert said == due, (words, said)
ended = subprocess.run(["srun", "-N2", "-n4", "./ring", "abort"], capture_output=True, text=True)
assert ended.returncode == 3, ended
