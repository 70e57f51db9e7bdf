"""Workers that are jobs: scaled up and down, made as there is work, lost and made again, with GPUs; and a cluster in one step."""
import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from dask.distributed import Client
from dask_jobqueue import SLURMCluster
from dask_jobqueue.slurm import SLURMJob

RUNNER = """
from dask.distributed import Client
from dask_jobqueue.slurm import SLURMRunner

if __name__ == "__main__":
    with SLURMRunner(scheduler_options={"interface": "lo"}, worker_options={"local_directory": "work"}) as runner:
        with Client(runner) as client:
            client.wait_for_workers(runner.n_workers)
            print("sum", runner.n_workers, sum(client.gather(client.map(lambda n: n + 1, range(10)))), flush=True)
"""


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout


def queue():
    return {line.strip() for line in run("squeue", "-h", "--me", "-o", "%i").splitlines()}


def until(what, wanted):
    end = time.time() + 120
    while (found := what()) != wanted:
        assert time.time() < end, (found, wanted)
        time.sleep(0.2)


def place(n):
    return n, os.environ["SLURM_JOB_ID"], os.environ["SLURM_CPUS_PER_TASK"], os.environ.get("SLURM_GPUS_ON_NODE")


def slow(n):
    time.sleep(0.5)
    return n


def cluster(**options):
    return SLURMCluster(
        cores=2, processes=1, memory="1GB", walltime="00:10:00", interface="lo", local_directory="work", log_directory="logs",
        job_extra_directives=["--gres=gpu:1", "--comment='a worker'"], **options
    )


def scaled():
    with cluster(queue="gpu") as workers, Client(workers) as client:
        workers.scale(jobs=2)
        client.wait_for_workers(2, timeout=120)
        assert sum(client.gather(client.map(lambda n: n * n, range(100)))) == 328350
        names = list(client.scheduler_info()["workers"])
        places = [client.submit(place, n, workers=[name], pure=False).result() for n, name in enumerate(names)]
        assert {job for _, job, _, _ in places} == queue() and len(queue()) == 2, (places, queue())
        assert {(cpus, gpus) for _, _, cpus, gpus in places} == {("2", "1")}, places
        shown = run("squeue", "-h", "--me", "-O", "Name:|,Comment:|,tres-per-node:|,MinMemory:|,NumCPUs:")
        assert shown.splitlines() == ["dask-worker|a worker|gres/gpu:1|954M|2"] * 2, shown
        # One is lost: it is known, and made again.
        lost = min(queue())
        run("scancel", lost)
        until(lambda: lost in queue(), False)
        client.wait_for_workers(1, timeout=120)
        assert client.gather(client.map(slow, range(4))) == list(range(4))
        workers.scale(jobs=1)
        until(lambda: len(queue()), 1)
        workers.scale(0)
        until(queue, set())
    logs = sorted(path.name for path in Path("logs").iterdir())
    assert f"dask-worker-{lost}.err" in logs and len(logs) >= 4, logs
    print("* scaled to two workers with GPUs, one cancelled, scaled down; logs by job")


def adaptive():
    with cluster() as workers, Client(workers) as client:
        workers.adapt(minimum_jobs=0, maximum_jobs=3, interval="500ms", wait_count=2)
        assert queue() == set()
        futures = client.map(slow, range(60), pure=False)
        until(lambda: len(queue()), 3)
        assert client.gather(futures) == list(range(60))
        del futures
        until(queue, set())
    print("* workers as there is work: none, three, none")


def in_one_step():
    Path("runner.py").write_text(RUNNER)
    said = run("srun", "-N2", "-n4", "--mem=2G", sys.executable, "runner.py")
    assert "sum 2 55\n" in said, said
    print("* a whole cluster in one step of four tasks")


def refused():
    job = SLURMJob(scheduler="tcp://127.0.0.1:1", name="lost", queue="nowhere", cores=1, memory="1GB")
    try:
        asyncio.run(job.start())
        raise SystemExit("a partition that is not there was taken")
    except RuntimeError as why:
        assert "invalid partition specified: nowhere" in str(why), why
    print("* a submission that is refused says why")


if __name__ == "__main__":
    scaled()
    adaptive()
    in_one_step()
    refused()
