"""Blocks of workers by sbatch and srun: functions, shell commands and steps over nodes; blocks that fail, end and are cancelled."""
import os
import subprocess
import time
import parsl
from parsl import bash_app, python_app
from parsl.config import Config
from parsl.executors import HighThroughputExecutor, MPIExecutor
from parsl.executors.errors import BadStateException
from parsl.jobs.states import JobState
from parsl.launchers import SimpleLauncher, SingleNodeLauncher, SrunLauncher, SrunMPILauncher
from parsl.providers import SlurmProvider


def out(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def until(what, *wanted):
    end = time.time() + 150
    while (found := what()) not in wanted:
        assert time.time() < end, (found, wanted)
        time.sleep(0.3)
    return found


class Provider(SlurmProvider):
    """Asks for the states of its jobs more often than once a minute."""

    status_polling_interval = 1


def provider(**options):
    given = {"walltime": "00:10:00", "exclusive": False, "mem_per_node": 2, "cores_per_node": 2, "launcher": SrunLauncher()}
    return Provider(**(given | options))


def executor(label, provider, **options):
    where = {"address": "127.0.0.1", "loopback_address": "127.0.0.1", "encrypted": False}
    return HighThroughputExecutor(label=label, provider=provider, **where, **options)


@python_app(executors=["wide"])
def where(n):
    import os
    import time

    time.sleep(0.2)
    return n, os.environ["SLURMD_NODENAME"], os.environ["WHERE"]


@bash_app(executors=["wide"])
def shell(stdout=None):
    return "echo $SLURM_NTASKS"


@bash_app(executors=["wide"])
def fail():
    return "exit 7"


@python_app(executors=["gpus"])
def device():
    import os
    import time

    time.sleep(0.5)
    return os.environ["CUDA_VISIBLE_DEVICES"]


@bash_app(executors=["steps"])
def over_nodes(stdout=None, parsl_resource_specification=None):
    return "$PARSL_MPI_PREFIX sh -c 'sleep 0.3; echo $SLURM_PROCID of $SLURM_NTASKS on $SLURMD_NODENAME'"


def workers():
    wide = executor("wide", provider(nodes_per_block=2, worker_init="export WHERE=block"), max_workers_per_node=2)
    gpus = executor("gpus", provider(gpus_per_node=2, launcher=SingleNodeLauncher()), available_accelerators=2)
    steps = MPIExecutor(
        label="steps", address="127.0.0.1", loopback_address="127.0.0.1", mpi_launcher="srun", max_workers_per_block=2,
        provider=provider(nodes_per_block=2, launcher=SimpleLauncher(), exclusive=True, cores_per_node=None), encrypted=False,
    )
    with parsl.load(Config(executors=[wide, gpus, steps], strategy="none")):
        results = [future.result() for future in [where(n) for n in range(40)]]
        assert [n for n, _, _ in results] == list(range(40))
        assert len({node for _, node, _ in results}) == 2, results
        assert {word for _, _, word in results} == {"block"}
        assert shell(stdout="shell.out").result() == 0
        assert open("shell.out").read() == "2\n"
        assert fail().exception().exitcode == 7
        print("* two workers on each of two nodes by SrunLauncher")
        assert {future.result() for future in [device() for _ in range(4)]} == {"0", "1"}
        print("* a worker for each of two GPUs")
        asked = {"num_nodes": 2, "ranks_per_node": 2}
        single = {"num_nodes": 1, "ranks_per_node": 2}
        ran = [over_nodes(stdout="both", parsl_resource_specification=asked)]
        ran += [over_nodes(stdout=f"one{n}", parsl_resource_specification=single) for n in range(2)]
        assert [future.result() for future in ran] == [0, 0, 0]
        both = sorted(line.split() for line in open("both"))
        assert [line[:3] for line in both] == [[str(n), "of", "4"] for n in range(4)] and both[0][4] == both[1][4] != both[2][4], both
        ones = [sorted(line.split()[:3] for line in open(f"one{n}")) for n in range(2)]
        assert ones == [[["0", "of", "2"], ["1", "of", "2"]]] * 2, ones
        print("* steps over two nodes, and side by side on one each, in a block")
    until(lambda: out("squeue", "-h", "--me"), "")


def scaled():
    """Blocks come as there is work, and go."""
    few = executor("wide", provider(init_blocks=0, max_blocks=2, worker_init="export WHERE=block"), max_workers_per_node=2)
    with parsl.load(Config(executors=[few], strategy="htex_auto_scale", strategy_period=0.5, max_idletime=1)):
        assert out("squeue", "-h", "--me") == ""
        futures = [where(n) for n in range(60)]
        until(lambda: len(out("squeue", "-h", "--me", "-t", "R").splitlines()), 2)
        assert len([future.result() for future in futures]) == 60
        until(lambda: out("squeue", "-h", "--me"), "")
    print("* two blocks as there is work, none without")


def broken():
    """A block that cannot start is known as failed, and its tasks are told."""
    bad = executor("wide", provider(worker_init="exit 3"))
    with parsl.load(Config(executors=[bad], strategy="none", strategy_period=0.5)):
        why = where(1).exception()
        assert isinstance(why, BadStateException), why
        (block,) = bad.blocks_to_job_id.values()
        assert out("sacct", "-X", "-n", "-P", "-j", block, "-o", "State,ExitCode").strip() == "FAILED|3:0"
        assert bad.status_facade["0"].state in (JobState.FAILED, JobState.MISSING), bad.status_facade
    print("* a block that fails")


def jobs():
    """The provider by itself: states of jobs, and cancelling."""
    # Each has a provider: parsl takes a job that it asks no more about for completed.
    run = {}
    for script in ("echo done", "exit 5", "sleep 600"):
        alone = provider(launcher=SimpleLauncher())
        alone.script_dir = os.getcwd()
        run[script] = alone, alone.submit(script, 1)
    for script, wanted in (("echo done", JobState.COMPLETED), ("exit 5", JobState.FAILED), ("sleep 600", JobState.RUNNING)):
        alone, job = run[script]
        assert until(lambda: alone.status([job])[0].state, JobState.COMPLETED, JobState.FAILED, wanted) == wanted, script
    alone, job = run["echo done"]
    assert open(alone.resources[job]["job_stdout_path"]).read() == "done\n"
    alone, job = run["sleep 600"]
    assert alone.cancel([job]) == [True]
    until(lambda: out("sacct", "-X", "-n", "-P", "-j", job, "-o", "State").split()[0], "CANCELLED")
    many = provider(nodes_per_block=2, launcher=SrunMPILauncher())
    many.script_dir = os.getcwd()
    job = many.submit("echo $SLURM_STEP_ID $SLURM_NNODES", 1)
    until(lambda: many.status([job])[0].state, JobState.COMPLETED)
    print("* jobs of the provider alone: completed, failed, cancelled")


jobs()
workers()
scaled()
broken()
