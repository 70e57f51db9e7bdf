//! `cargo xtask demo`: a cluster on this machine, fenced jobs of an ordinary user, who may open what, what was refused and by
//! whom, what a job really uses; and nothing left behind.

mod live;
mod table;
mod traces;

use crate::dev::DevCluster;
use crate::{setup, sh, vm};
use anyhow::{Context, Result, bail, ensure};
use std::process::Child;
use std::time::{Duration, Instant};
use table::Row;

/// GPUs of each node.
const GPUS: u32 = 8;

/// How long a job may take to start or end.
const LIMIT: Duration = Duration::from_secs(60);

/// Tries every stand-in of its node by opening it, and says what the kernel answered; then waits for the file `go`.
const TRY_ALL: &str = r#"
echo "job $SLURM_JOB_ID"
unset CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES GPU_DEVICE_ORDINAL
for device in "$@"; do
  answer=$( { : < "$device"; } 2>&1 )
  case $answer in
    *"not permitted"*) echo refused ;;
    *"No such device"*) echo reached ;;
    *) echo "$answer" ;;
  esac
done
echo done
while ! test -e go; do sleep 0.1; done
"#;

/// What is asked for, and how many GPUs it must reach.
const JOBS: [(&str, usize); 3] = [("--gres=gpu:2", 2), ("--gres=gpu:4", 4), ("--gres=none", 0)];

/// Shows it all; an error if anything is not as it should be.
pub(crate) fn run() -> Result<()> {
    if !sh::is_root() {
        bail!(
            "the demo fences real processes, which takes root: run `sudo -E env PATH=\"$PATH\" cargo xtask demo`"
        );
    }
    setup::for_build()?;
    vm::build()?;
    let gpus = GPUS.to_string();
    let args = [
        "--nodes",
        "2",
        "--gpus",
        &gpus,
        "--cpus",
        "64",
        "--memory",
        "256G",
        "--idle-after",
        live::IDLE_AFTER,
    ];
    let demo = Demo {
        cluster: DevCluster::up(&sh::bin_dir()?, &args)?,
    };
    let traces = traces::Traces::of(demo.cluster.dir())?;
    let shown = demo.show();
    // Whatever came of it: nothing stays.
    demo.cluster.down()?;
    shown?;
    let left = traces.left();
    ensure!(left.is_empty(), "dev down left behind: {}", left.join(", "));
    println!("\ndemo: everything as it should be, and nothing left behind");
    Ok(())
}

struct Demo {
    cluster: DevCluster,
}

impl Demo {
    /// Runs a command as the user and shows it with what it says.
    fn say(&self, args: &[&str]) -> Result<String> {
        println!("\n$ {}", args.join(" "));
        let text = sh::output(&mut self.cluster.command(args))?;
        print!("{text}");
        Ok(text)
    }

    fn show(&self) -> Result<()> {
        println!(
            "\nTwo nodes with {GPUS} GPUs each. These are stand-ins: device nodes that the fence treats as GPUs and that"
        );
        println!("no driver answers, so an open that gets through says \"No such device\".");
        self.say(&["sinfo"])?;
        println!(
            "\nThree jobs of user {} at once on n1, each trying to open every GPU of the node:",
            self.cluster.uid()
        );
        let devices: Vec<String> = (0..GPUS)
            .map(|number| {
                self.cluster
                    .dir()
                    .join(format!("nodes/n1/dev/gpu{number}"))
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        let mut jobs = Vec::new();
        for (number, (gres, _)) in JOBS.iter().enumerate() {
            println!("$ srun -w n1 {gres} try-all-gpus &");
            jobs.push(self.start(number, gres, &devices)?);
        }
        let rows = self.rows();
        if rows.is_ok() {
            self.say(&["squeue"])?;
            self.say(&["sinfo", "-N", "-o", "%N %T %G"])?;
        }
        std::fs::write(self.cluster.home().join("go"), "").context("letting the jobs end")?;
        for (job, (gres, _)) in jobs.iter_mut().zip(JOBS) {
            let status = job.wait().context("waiting for a job")?;
            println!("srun {gres}: {status}");
        }
        let rows = rows?;
        self.await_empty_queue()?;
        print!("\nWho may open what:\n{}", table::render(&rows, GPUS));
        table::check(&rows, &JOBS.map(|(_, count)| count))?;
        println!("\nWhat was refused, and by whom:");
        self.say(&["spur", "fence", "log"])?;
        self.say(&["spur", "fence", "explain", rows[0].job()])?;
        self.show_use()
    }

    /// Waits until the cluster has cleaned up after every job.
    fn await_empty_queue(&self) -> Result<()> {
        let end = Instant::now() + LIMIT;
        while !sh::output(&mut self.cluster.command(&["squeue", "-h"]))?.is_empty() {
            ensure!(
                Instant::now() < end,
                "the jobs are not gone after {} s",
                LIMIT.as_secs()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn start(&self, number: usize, gres: &str, devices: &[String]) -> Result<Child> {
        let out = std::fs::File::create(self.cluster.home().join(format!("out{number}")))
            .context("making a file")?;
        let mut args = vec![
            "srun",
            "-w",
            "n1",
            "-n1",
            gres,
            "sh",
            "-c",
            TRY_ALL,
            "try-all-gpus",
        ];
        args.extend(devices.iter().map(String::as_str));
        self.cluster
            .command(&args)
            .stdout(out)
            .spawn()
            .context("starting srun")
    }

    /// What the jobs found, once all have looked; all three are running then.
    fn rows(&self) -> Result<Vec<Row>> {
        let end = Instant::now() + LIMIT;
        loop {
            let texts = (0..JOBS.len()).map(|number| {
                std::fs::read_to_string(self.cluster.home().join(format!("out{number}")))
                    .unwrap_or_default()
            });
            let rows: Option<Vec<Row>> = texts
                .zip(JOBS)
                .map(|(text, (gres, _))| Row::read(gres, &text))
                .collect();
            if let Some(rows) = rows {
                return Ok(rows);
            }
            ensure!(
                Instant::now() < end,
                "the jobs did not start and look within {} s",
                LIMIT.as_secs()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
