"""Functions as jobs: one alone, an array, one that fails, one that is preempted by its signal and goes on, one that is cancelled."""
import os
import time
import submitit


def square(n):
    return n * n, os.environ["SLURM_JOB_ID"]


def fail():
    raise ValueError("on purpose")


def sleep():
    time.sleep(600)


def state(job, *wanted):
    """Asks the accounting until the job is in one of these states."""
    while True:
        found = job.watcher.get_state(job.job_id, mode="force")
        if found.split()[0] in wanted:
            return found
        assert found in ("UNKNOWN", "PENDING", "RUNNING", "COMPLETING"), found
        time.sleep(0.2)


executor = submitit.AutoExecutor(folder="log_%j")
assert executor.cluster == "slurm", executor.cluster
executor.update_parameters(timeout_min=5, mem_gb=1, cpus_per_task=1, name="square")
job = executor.submit(square, 7)
assert job.result() == (49, job.job_id), job.result()
state(job, "COMPLETED")
array = executor.map_array(square, range(5))
assert [job.result()[0] for job in array] == [0, 1, 4, 9, 16]
assert all("_" in job.job_id for job in array)
executor.update_parameters(tasks_per_node=2, nodes=2)
several = executor.submit(square, 3)
assert [result[0] for result in several.results()] == [9] * 4, several.results()
executor.update_parameters(tasks_per_node=1, nodes=1)
failed = executor.submit(fail)
assert "on purpose" in str(failed.exception()), failed.exception()
state(failed, "FAILED")
long = executor.submit(sleep)
state(long, "RUNNING")
long.cancel(check=True)
assert state(long, "CANCELLED") == f"CANCELLED by {os.getuid()}"
