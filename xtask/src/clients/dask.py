"""A cluster of workers, each a job: scaled up, put to work, scaled down, closed."""
import subprocess
from dask.distributed import Client
from dask_jobqueue import SLURMCluster


def queue():
    return subprocess.run(["squeue", "-h"], capture_output=True, text=True, check=True).stdout.splitlines()


def place(n):
    import os

    return n, os.environ["SLURM_JOB_ID"]


if __name__ == "__main__":
    cluster = SLURMCluster(
        cores=1, memory="1GB", walltime="00:10:00", interface="lo", local_directory="work", log_directory="logs"
    )
    cluster.scale(jobs=2)
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=120)
        assert sum(client.gather(client.map(lambda n: n * n, range(100)))) == 328350
        workers = list(client.scheduler_info()["workers"])
        jobs = {client.submit(place, n, workers=[worker], pure=False).result()[1] for n, worker in enumerate(workers)}
        assert len(jobs) == 2 and jobs == {line.split()[0] for line in queue()}, (jobs, queue())
        cluster.scale(0)
        while queue():
            pass
    cluster.close()
