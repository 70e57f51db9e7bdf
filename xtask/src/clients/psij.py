"""One interface over batch systems: jobs whose states arrive by themselves; one that fails, one that is cancelled, one over two nodes."""
from datetime import timedelta
from pathlib import Path
from psij import Job, JobAttributes, JobExecutor, JobSpec, JobState, ResourceSpecV1

executor = JobExecutor.get_instance("slurm")


def run(script, name, **resources):
    spec = JobSpec(
        executable="/bin/sh", arguments=["-c", script], directory=Path.cwd(), stdout_path=Path(f"{name}.out"),
        resources=ResourceSpecV1(**resources), launcher="srun", attributes=JobAttributes(duration=timedelta(minutes=5)),
    )
    job = Job(spec)
    executor.submit(job)
    return job


one = run("echo hello", "one")
both = run("echo $SLURM_PROCID; sleep 1", "both", node_count=2, processes_per_node=2)
bad = run("exit 3", "bad")
long = run("sleep 600", "long")
assert one.wait(timeout=timedelta(minutes=2)).state == JobState.COMPLETED, one.status
assert Path("one.out").read_text() == "hello\n"
assert both.wait(timeout=timedelta(minutes=2)).state == JobState.COMPLETED, both.status
assert sorted(Path("both.out").read_text().split()) == ["0", "1", "2", "3"]
status = bad.wait(timeout=timedelta(minutes=2))
assert status.state == JobState.FAILED, status
long.wait(target_states=[JobState.ACTIVE], timeout=timedelta(minutes=2))
long.cancel()
assert long.wait(timeout=timedelta(minutes=2)).state == JobState.CANCELED, long.status
