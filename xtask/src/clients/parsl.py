"""Blocks of workers by sbatch and srun: functions and shell commands on two nodes."""
import parsl
from parsl import bash_app, python_app
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider

provider = SlurmProvider(
    nodes_per_block=2, init_blocks=1, max_blocks=1, walltime="00:10:00", launcher=SrunLauncher(), exclusive=False,
    mem_per_node=2, cores_per_node=2, worker_init="export WHERE=block",
)
executor = HighThroughputExecutor(
    label="slurm", provider=provider, address="127.0.0.1", loopback_address="127.0.0.1", max_workers_per_node=2, encrypted=False
)


@python_app
def where(n):
    import os
    import time

    time.sleep(0.2)
    return n, os.environ["SLURMD_NODENAME"], os.environ["WHERE"]


@bash_app
def shell(stdout=None):
    return "echo $SLURM_NTASKS"


with parsl.load(Config(executors=[executor], strategy="none")):
    results = [future.result() for future in [where(n) for n in range(40)]]
    assert [n for n, _, _ in results] == list(range(40))
    assert {node for _, node, _ in results} == {"n1", "n2"}, results
    assert {word for _, _, word in results} == {"block"}
    assert shell(stdout="shell.out").result() == 0
    assert open("shell.out").read() == "2\n"
