"""One program over two nodes, two processes on each: jax finds its place by what a step is told, and adds up over all."""
import subprocess
import sys

PROGRAM = """
import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

# Nodes here are names on one machine, which nobody resolves: where the first process listens is said.
jax.distributed.initialize(coordinator_address="127.0.0.1:PORT", cluster_detection_method="slurm")
total = multihost_utils.process_allgather(jnp.array([jax.process_index() + 1])).sum()
print(jax.process_index(), jax.process_count(), int(total))
"""


def port():
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


open("program.py", "w").write(PROGRAM.replace("PORT", port()))
words = ["srun", "-N2", "--ntasks-per-node=2", "--mem=4G", sys.executable, "program.py"]
ran = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
assert ran.returncode == 0, ran
said = [line for line in ran.stdout.splitlines() if not line.startswith("[Gloo]")]
assert sorted(said) == [f"{rank} 4 10" for rank in range(4)], ran
