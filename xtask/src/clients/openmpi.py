"""Open MPI's programs by srun itself (PMIx), where the nodes have its library, and by its own starter, which starts its daemons by srun."""
import os
import subprocess
from pathlib import Path


def out(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout


os.environ["HOME"] = os.getcwd()
# The nodes here have one machine's name and shared memory: Open MPI takes them for one.
os.environ["OMPI_MCA_btl"] = "self,tcp"
subprocess.run(["mpicc.openmpi", "-o", "ring", Path(__file__).with_name("ring.c")], check=True)
due = [f"rank {rank} of 4 on n{rank // 2 + 1}: sum 10" + ("" if rank else ", token ok") for rank in range(4)]
by_srun = ["srun", "--mpi=pmix", "-N2", "-n4"]
for words in [
    *([by_srun] if "pmix" in out("srun", "--mpi=list") else []),
    ["salloc", "-Q", "-N2", "-n4", "mpirun.openmpi"],
    ["salloc", "-Q", "-N2", "-n4", "mpirun.openmpi", "-n", "4"],
]:
    said = sorted(out(*words, "./ring").splitlines())
    assert said == due, (words, said)
