"""One interface over batch systems: states that arrive by themselves, failure, time limits, cancelling, launchers, attributes."""
import subprocess
import threading
import time
from datetime import timedelta
from pathlib import Path
from psij import (
    InvalidJobException, Job, JobAttributes, JobExecutor, JobExecutorConfig, JobSpec, JobState, JobStatusCallback, ResourceSpecV1,
    SubmitException,
)
from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutorConfig

SOON = timedelta(minutes=3)
often = BatchSchedulerExecutorConfig(initial_queue_polling_delay=1, queue_polling_interval=1)
executor = JobExecutor.get_instance("slurm", config=often)
seen = {}
lock = threading.Lock()


class Watch(JobStatusCallback):
    def job_status_changed(self, job, status):
        with lock:
            seen.setdefault(job.id, []).append(status.state)


executor.set_job_status_callback(Watch())


def out(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def run(script, name, launcher="single", minutes=5, attributes=None, queue=None, spec=None, **resources):
    job = Job(JobSpec(
        executable="/bin/sh", arguments=["-c", script], directory=Path.cwd(), stdout_path=Path(f"{name}.out").absolute(),
        stderr_path=Path(f"{name}.err").absolute(), resources=ResourceSpecV1(**resources), launcher=launcher,
        attributes=JobAttributes(duration=timedelta(minutes=minutes), queue_name=queue, custom_attributes=attributes),
        **(spec or {}),
    ))
    executor.submit(job)
    return job


def ended(job, state):
    status = job.wait(timeout=SOON)
    assert status and status.state == state, (job.status, state)
    return status


limited = run("sleep 600", "limited", minutes=1)
one = run("echo hello; echo oops >&2", "one")
both = run("echo $SLURM_PROCID; sleep 1", "both", "srun", node_count=2, processes_per_node=2)
many = run("echo $PSIJ_NODEFILE >/dev/null; echo x", "many", "multiple", process_count=3)
bad = run("exit 3", "bad")
killed = run("kill -9 $$", "killed", "srun")
long = run("sleep 600", "long")

ended(one, JobState.COMPLETED)
assert Path("one.out").read_text() == "hello\n" and Path("one.err").read_text() == "oops\n"
ended(both, JobState.COMPLETED)
assert sorted(Path("both.out").read_text().split()) == ["0", "1", "2", "3"]
ended(many, JobState.COMPLETED)
assert Path("many.out").read_text() == "x\n" * 3
print("* one process, three on one node, four on two nodes")
assert ended(bad, JobState.FAILED).exit_code == 3, bad.status
assert ended(killed, JobState.FAILED).exit_code == 137, killed.status
long.wait(target_states=[JobState.ACTIVE], timeout=SOON)
assert long.native_id in executor.list() and one.native_id in executor.list()
long.cancel()
ended(long, JobState.CANCELED)
assert out("sacct", "-X", "-n", "-P", "-j", long.native_id, "-o", "State").startswith("CANCELLED")
waiting = run("true", "waiting", attributes={"slurm.begin": "now+1hour"})
assert waiting.wait(target_states=[JobState.QUEUED], timeout=SOON)
waiting.cancel()
ended(waiting, JobState.CANCELED)
print("* an exit code, a kill, a running and a waiting job cancelled")

attributes = {"slurm.comment": "two_words", "slurm.nice": "5", "slurm.mail-type": "NONE"}
Path("input").write_text("from a file\n")
told = run(
    "cat; echo $GREETING $SLURM_CPUS_PER_TASK $SLURM_MEM_PER_NODE; sleep 5", "told", attributes=attributes, queue="gpu",
    spec={"environment": {"GREETING": "it's me"}, "stdin_path": Path("input").absolute()},
    cpu_cores_per_process=3, memory=512 * 1024 * 1024,
)
told.wait(target_states=[JobState.ACTIVE], timeout=SOON)
shown = out("squeue", "-h", "-j", told.native_id, "-O", "Partition:|,Comment:|,NumCPUs:|,MinMemory:")
assert shown == "gpu|two_words|3|512M\n", shown
again = Job()
executor.attach(again, told.native_id)
ended(told, JobState.COMPLETED)
ended(again, JobState.COMPLETED)
assert Path("told.out").read_text() == "from a file\nit's me 3 512\n", Path("told.out").read_text()
gpu = run("echo $CUDA_VISIBLE_DEVICES", "gpu", "srun", process_count=2, processes_per_node=2, gpu_cores_per_process=1)
ended(gpu, JobState.COMPLETED)
devices = Path("gpu.out").read_text().split()
assert len(devices) == 2 and all("," not in each for each in devices), devices
alone = run("echo $SLURM_CPUS_ON_NODE", "alone", exclusive_node_use=True)
ended(alone, JobState.COMPLETED)
assert Path("alone.out").read_text() == "8\n"
print("* queue, comment, memory, CPUs, environment, input; a GPU for each process; a node alone; attached by number")

try:
    run("true", "nowhere", queue="nowhere")
    raise SystemExit("a queue that is not there was taken")
except SubmitException as why:
    assert "invalid partition" in str(why).lower(), why
status = ended(limited, JobState.FAILED)
assert "time limit" in status.message, status
due = [JobState.QUEUED, JobState.ACTIVE, JobState.COMPLETED]
order = [state for state in due if state in seen[both.id]]
assert seen[both.id] == order and order[-1] == JobState.COMPLETED and len(order) >= 2, seen[both.id]
assert seen[long.id][-1] == JobState.CANCELED and seen[bad.id][-1] == JobState.FAILED, seen
print("* a refusal, a time limit, states in order by callback")
