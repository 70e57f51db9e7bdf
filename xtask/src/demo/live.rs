//! The demo's second half: what a job that asked for four GPUs really uses.

use super::{Demo, LIMIT};
use crate::sh;
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};

/// Seconds without work after which a GPU counts as idle here.
pub(super) const IDLE_AFTER: &str = "3";

/// One GPU at 90 %, the others untouched, and one CPU busy. A stand-in's use is what its file says: there is no chip to ask.
const ONE_OF_FOUR: &str = r#"
gpu0=$1
echo 900 > "$gpu0"
while ! test -e enough; do :; done
echo 0 > "$gpu0"
"#;

impl Demo {
    /// Shows the use while the job runs, who holds idle GPUs, and the record that stays.
    pub(super) fn show_use(&self) -> Result<()> {
        println!(
            "\nA job that holds four GPUs, uses one of them (simulated: 90 % busy), and one CPU:"
        );
        let file = self.cluster.dir().join("nodes/n1/dev/gpu0.busy");
        let file = file.to_string_lossy();
        println!("$ srun -w n1 --gres=gpu:4 use-one-of-four &");
        let args = [
            "srun",
            "-w",
            "n1",
            "-n1",
            "--gres=gpu:4",
            "sh",
            "-c",
            ONE_OF_FOUR,
            "use-one-of-four",
            &file,
        ];
        let mut job = self
            .cluster
            .command(&args)
            .spawn()
            .context("starting srun")?;
        let idle = self.await_idle();
        let shown = idle.and_then(|id| {
            self.say(&["sstat", "-o", "JobID,AveCPU,MaxRSS,NTasks", "-j", &id])?;
            self.say(&["spur", "usage", "--idle"])?;
            Ok(id)
        });
        std::fs::write(self.cluster.home().join("enough"), "").context("letting the job end")?;
        let status = job.wait().context("waiting for the job")?;
        let id = shown?;
        println!("srun: {status}");
        self.await_empty_queue()?;
        self.await_record(&id)?;
        println!("\nAnd what is on record of it, from one computation:");
        let record = self.say(&["seff", &id])?;
        ensure!(
            record.contains("GPUs Utilized: 1 of 4"),
            "seff does not say that one GPU of four was used"
        );
        self.say(&[
            "sacct",
            "-X",
            "-j",
            &id,
            "-o",
            "JobID,State,Elapsed,TotalCPU,GpuUtil,GpuHours,GpuIdle",
        ])?;
        self.say(&["spur", "usage", &id])?;
        Ok(())
    }

    /// Waits until the node's last numbers are on the controller's disk.
    fn await_record(&self, id: &str) -> Result<()> {
        let end = Instant::now() + LIMIT;
        while sh::output(&mut self.cluster.command(&["seff", id]))?.contains("not told") {
            ensure!(
                Instant::now() < end,
                "the job's last numbers are not there after {} s",
                LIMIT.as_secs()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// The job's number, once it is known to hold idle GPUs.
    fn await_idle(&self) -> Result<String> {
        let end = Instant::now() + LIMIT;
        loop {
            let ask = |args: &[&str]| sh::output(&mut self.cluster.command(args));
            let id = ask(&["squeue", "-h", "-t", "R", "-o", "%i"])?
                .trim()
                .to_owned();
            let idle = ask(&["spur", "usage", "--idle"])?;
            if !id.is_empty() && idle.lines().filter(|line| line.contains(&id)).count() >= 3 {
                return Ok(id);
            }
            ensure!(
                Instant::now() < end,
                "nobody says within {} s that three GPUs are idle",
                LIMIT.as_secs()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
