"""Functions as jobs: alone, in arrays, on several nodes, with a GPU; failed, killed, cancelled; interrupted, and gone on with."""
import os
import signal
import subprocess
import time
import submitit
from submitit.helpers import DelayedSubmission


def square(n):
    return n * n, os.environ["SLURM_JOB_ID"]


def fail():
    raise ValueError("on purpose")


def sleep(seconds=600):
    began = time.time()
    time.sleep(seconds)
    return began, time.time()


def speak(word):
    import sys

    print(f"out {word}")
    print(f"err {word}", file=sys.stderr)


def place():
    env = submitit.JobEnvironment()
    return env.global_rank, env.local_rank, env.node, env.num_tasks, env.num_nodes, env.hostnames


def gpus():
    return os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("SLURM_GPUS_ON_NODE")


def die(signal_number):
    os.kill(os.getpid(), signal_number)


def leave(code):
    os._exit(code)


class Count:
    """Counts, and goes on where it was when it is interrupted."""

    def __init__(self):
        self.at = 0
        self.starts = []

    def __call__(self, until, mark):
        self.starts.append((os.environ["SLURM_JOB_ID"], os.environ.get("SLURM_RESTART_COUNT")))
        while self.at < until:
            self.at += 1
            open(mark, "w").write(str(self.at))
            time.sleep(0.1)
        return self.at, self.starts

    def checkpoint(self, until, mark):
        return DelayedSubmission(self, min(until, self.at + 10), mark)


def state(job, *wanted):
    """Asks the accounting until the job is in one of these states."""
    while True:
        found = job.watcher.get_state(job.job_id, mode="force")
        if found.split()[0] in wanted:
            return found
        assert found in ("UNKNOWN", "PENDING", "RUNNING", "COMPLETING"), found
        time.sleep(0.2)


def accounting(job, column):
    words = ["sacct", "-X", "-n", "-P", "-j", job.job_id, "-o", column]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def wait_for(path):
    while not (os.path.exists(path) and open(path).read()):
        time.sleep(0.1)


def at_once(spans):
    return max(sum(begin <= other < end for begin, end in spans) for other, _ in spans)


def executor(minutes=5, **parameters):
    made = submitit.AutoExecutor(folder="log_%j", slurm_max_num_timeout=1)
    assert made.cluster == "slurm", made.cluster
    made.update_parameters(timeout_min=minutes, mem_gb=1, cpus_per_task=1, name="work", **parameters)
    return made


def alone():
    job = executor().submit(square, 7)
    assert job.result() == (49, job.job_id), job.result()
    state(job, "COMPLETED")
    said = executor(slurm_setup=["export GREETING=hello"], slurm_additional_parameters={"comment": "two words"}).submit(speak, "x")
    said.result()
    assert "out x\n" in said.stdout() and "err x\n" in said.stderr(), (said.stdout(), said.stderr())
    apart = executor(slurm_use_srun=False).submit(square, 6)
    assert apart.result() == (36, apart.job_id)
    after = executor(slurm_additional_parameters={"dependency": f"afterok:{job.job_id}"}).submit(square, 2)
    assert after.result()[0] == 4
    print("* jobs, their output, one after another")


def arrays():
    jobs = executor(slurm_array_parallelism=2).map_array(sleep, [1] * 5)
    assert all(job.job_id == f"{jobs[0].job_id.split('_')[0]}_{n}" for n, job in enumerate(jobs))
    spans = [job.result() for job in jobs]
    assert at_once(spans) == 2, spans
    many = executor()
    with many.batch():
        batch = [many.submit(square, n) for n in range(4)]
    assert [job.result()[0] for job in batch] == [0, 1, 4, 9]
    assert len({job.job_id.split("_")[0] for job in batch}) == 1 and len({job.result()[1] for job in batch}) == 4
    jobs = executor().map_array(sleep, [600, 0, 600])
    assert jobs[1].result()
    state(jobs[0], "RUNNING")
    jobs[0].cancel(check=True)
    assert state(jobs[0], "CANCELLED") == f"CANCELLED by {os.getuid()}"
    assert state(jobs[2], "RUNNING", "CANCELLED") == "RUNNING"
    subprocess.run(["scancel", jobs[0].job_id.split("_")[0]], check=True)
    state(jobs[2], "CANCELLED")
    assert jobs[1].state == "COMPLETED", jobs[1].state
    print("* arrays with a limit, by batch, one task cancelled")


def several():
    job = executor(tasks_per_node=2, nodes=2).submit(place)
    found = sorted(job.results())
    nodes = found[0][5]
    assert len(nodes) == 2 and [place[:5] for place in found] == [(n, n % 2, n // 2, 4, 2) for n in range(4)], found
    with_gpu = executor(gpus_per_node=1).submit(gpus)
    visible, count = with_gpu.result()
    assert count == "1" and visible and "," not in visible, with_gpu.result()
    print("* four tasks on two nodes, a GPU")


def failures():
    failed = executor().submit(fail)
    assert "on purpose" in str(failed.exception()), failed.exception()
    state(failed, "FAILED")
    assert accounting(failed, "ExitCode") == "1:0"
    left = executor().submit(leave, 3)
    state(left, "FAILED")
    assert accounting(left, "ExitCode") == "3:0", accounting(left, "ExitCode")
    assert isinstance(left.exception(), submitit.core.utils.UncompletedJobError), left.exception()
    killed = executor().submit(die, signal.SIGKILL)
    assert state(killed, "FAILED", "CANCELLED") == "FAILED"
    # The batch shell ends with what srun says of a killed task.
    assert accounting(killed, "ExitCode") in ("137:0", "9:0"), accounting(killed, "ExitCode")
    long = executor().submit(sleep)
    state(long, "RUNNING")
    long.cancel(check=True)
    assert state(long, "CANCELLED") == f"CANCELLED by {os.getuid()}"
    print("* an exception, an exit code, a kill, a cancelled job")


def interrupted():
    # Of a job of minutes submitit takes every signal for the end of its time.
    job = executor(minutes=60).submit(Count(), 10_000, os.path.abspath("preempted"))
    wait_for("preempted")
    job._interrupt(timeout=False)
    at, starts = job.result()
    assert starts == [(job.job_id, None), (job.job_id, "1")], starts
    assert "Bypassing signal SIGTERM" in job.stderr() and "preempted" in job.stderr(), job.stderr()
    array = executor().map_array(Count(), [10_000] * 2, [os.path.abspath(f"task{n}") for n in range(2)])
    wait_for("task0"), wait_for("task1")
    array[1]._interrupt(timeout=True)
    _, starts = array[1].result()
    assert [count for _, count in starts] == [None, "1"], starts
    assert state(array[0], "RUNNING", "CANCELLED", "COMPLETED") == "RUNNING"
    array[0].cancel(check=True)
    # The time limit's own signal, in time to go on: 50 s before the end of one minute.
    job = executor(minutes=1, slurm_signal_delay_s=50).submit(Count(), 10_000, os.path.abspath("limited"))
    at, starts = job.result()
    assert [count for _, count in starts] == [None, "1"] and 20 < at < 300, (at, starts)
    print("* interrupted by signals and by the time limit, requeued, gone on with")


alone()
arrays()
several()
failures()
interrupted()
