"""Scripts put together in Python: an array with GPUs, a dependency, a step; the queue read as a table; signalled, cancelled."""
import datetime
import subprocess
import time
from simple_slurm import Slurm


def out(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def state(job, *wanted):
    end = time.time() + 60
    while (found := out("sacct", "-X", "-n", "-P", "-j", str(job), "-o", "State").split()) not in [[state] for state in wanted]:
        assert time.time() < end, (job, found, wanted)
        time.sleep(0.2)


queue = Slurm().squeue
array = Slurm(
    array=range(3, 6), cpus_per_task=2, gres=["gpu:1"], job_name="name", output=f"{Slurm.JOB_ARRAY_MASTER_ID}_%a.out",
    time=datetime.timedelta(minutes=5, seconds=7),
)
job = array.sbatch("echo task", Slurm.SLURM_ARRAY_TASK_ID, "$SLURM_CPUS_PER_TASK $CUDA_VISIBLE_DEVICES; until test -e go; do sleep 0.1; done")
after = Slurm("--dependency", {"afterok": job}, "-J", "after", "-o", "after.out").sbatch("echo after")
while True:
    queue.update_squeue()
    tasks = queue.get_filtered_jobs("name")
    if len(tasks) == 3 and {task["ST"] for task in tasks.values()} == {"R"}:
        break
    time.sleep(0.1)
assert {task["TRES_PER_NODE"] for task in tasks.values()} == {"gres/gpu:1"} and {task["CPUS"] for task in tasks.values()} == {"2"}, tasks
assert all(task["TIME_LEFT"] in ("6:00", "5:59", "5:58") for task in tasks.values()), tasks
(waiting,) = queue.get_filtered_jobs("after").values()
assert (waiting["ST"], waiting["NODELIST(REASON)"]) == ("PD", "(Dependency)"), waiting
open("go", "w").close()
state(after, "COMPLETED")
assert open("after.out").read() == "after\n"
for n in range(3, 6):
    said = open(f"{job}_{n}.out").read().split()
    assert said[:3] == ["task", str(n), "2"] and len(said) == 4 and "," not in said[3], said
print("* an array with GPUs, one after it, both in the queue")

parsable = Slurm(parsable=True, ntasks=2, output="steps").sbatch("srun -l hostname", verbose=False)
state(parsable, "COMPLETED")
assert sorted(line.split(":")[0] for line in open("steps")) == ["0", "1"]
assert Slurm(ntasks=2, time="1:00").srun("sh -c 'test $SLURM_NTASKS = 2'") == 0
try:
    Slurm(ntasks=2, time="1:00").srun("sh -c 'exit 7'")
    raise SystemExit("a step that failed was taken for one that did not")
except subprocess.CalledProcessError as why:
    assert why.returncode == 7, why
failed = Slurm(output="failed").sbatch("exit 4", verbose=False)
state(failed, "FAILED")
print("* a step in a job and one alone, their exit codes")

steps = Slurm(output="signalled", ntasks=1).sbatch("srun sh -c 'trap \"echo got it; exit 0\" TERM; touch up; while :; do sleep 0.1; done'")
while "up" not in out("ls"):
    time.sleep(0.1)
canceller = Slurm().scancel
canceller.signal_job(steps)
state(steps, "COMPLETED")
assert "got it\n" in open("signalled").read()
long = Slurm(output="long").sbatch("sleep 600")
later = Slurm(begin="now+1hour", output="later").sbatch("true")
canceller.cancel_job(long)
canceller.cancel_all()
for job in (long, later):
    while not out("sacct", "-X", "-n", "-P", "-j", str(job), "-o", "State").startswith("CANCELLED by"):
        time.sleep(0.2)
queue.update_squeue()
assert queue.jobs == {}, queue.jobs
print("* a signal to a step, a job and what waits cancelled")
