//! One machine: started, listened to, and stopped when it has said its verdict, ended, or had its time.

use crate::vm::kernel::Kernel;
use crate::vm::{UP, VERDICT};
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Console lines that may wait to be read.
const LINES: usize = 1024;

/// The kernel's command line. The BPF LSM must be named to be active; a panic ends the machine at once.
const APPEND: &str = "console=ttyS0 quiet panic=-1 lsm=landlock,lockdown,yama,bpf cgroup_no_v1=all random.trust_cpu=on";

/// How long a kernel may take until our first process speaks: ten times what a busy machine takes.
const UP_WITHIN: Duration = Duration::from_secs(180);
/// How often a kernel is booted that does not come up.
const BOOTS: u32 = 3;

/// How a machine ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    /// Our first process never spoke: the kernel hung or died under emulation, and no test has begun.
    NotUp,
    /// The guest said that all is well.
    Ok,
    /// The guest said that something failed.
    Failed,
    /// It stopped without a word.
    NoVerdict,
    /// It was stopped.
    OutOfTime,
}

/// Boots the kernel with that first file system and shows its console until the verdict. Emulated machines with two processors now
/// and then hang or panic in the kernel's own start; that is tried again, and only that.
pub fn boot(kernel: &Kernel, image: &Path, append: &str, limit: Duration) -> Result<Ending> {
    let mut boots = 1;
    loop {
        let ending = boot_once(kernel, image, append, limit)?;
        if ending != Ending::NotUp || boots == BOOTS {
            return Ok(ending);
        }
        boots += 1;
        println!("spur-vm: the kernel did not come up: boot {boots} of {BOOTS}");
    }
}

fn boot_once(kernel: &Kernel, image: &Path, append: &str, limit: Duration) -> Result<Ending> {
    // Emulated: what virtualisation a build machine offers cannot be relied on, and a hang costs more than it saves.
    let mut command = Command::new("qemu-system-x86_64");
    command.args([
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max",
        "-m",
        "2G",
        "-smp",
        "2",
    ]);
    command.args([
        "-nographic",
        "-no-reboot",
        "-nic",
        "none",
        "-monitor",
        "none",
        "-serial",
        "stdio",
    ]);
    // Beside the VGA that every PC has: a PCI device with a driver, a render node and buffers of its own.
    command.args(["-device", "virtio-gpu-pci"]);
    command
        .arg("-kernel")
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(image)
        .args(["-append", &format!("{APPEND} {append}")]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("starting qemu-system-x86_64")?;
    let console = child.stdout.take().context("the machine has no console")?;
    let (sender, lines) = mpsc::sync_channel(LINES);
    let reader = std::thread::spawn(move || read_lines(console, &sender));
    let ending = follow(&lines, limit);
    drop(lines);
    stop(&mut child)?;
    reader
        .join()
        .ok()
        .context("the console's reader panicked")?;
    Ok(ending)
}

fn read_lines(console: impl Read, lines: &mpsc::SyncSender<String>) {
    let mut reader = BufReader::new(console);
    let mut bytes = Vec::new();
    while reader
        .read_until(b'\n', &mut bytes)
        .is_ok_and(|count| count > 0)
    {
        let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        // Nobody listens any more: the machine is being stopped.
        if lines.send(line).is_err() {
            return;
        }
        bytes.clear();
    }
}

fn follow(lines: &Receiver<String>, limit: Duration) -> Ending {
    let start = Instant::now();
    let mut up = false;
    loop {
        let end = start + if up { limit } else { limit.min(UP_WITHIN) };
        let left = end.saturating_duration_since(Instant::now());
        let line = match lines.recv_timeout(left) {
            Ok(line) => line,
            Err(_) if !up => return Ending::NotUp,
            Err(RecvTimeoutError::Timeout) => return Ending::OutOfTime,
            Err(RecvTimeoutError::Disconnected) => return Ending::NoVerdict,
        };
        up |= line.contains(UP);
        println!("{}", printable(&line));
        // A reader that is gone must not stop the run.
        std::io::stdout().flush().ok();
        if let Some((_, verdict)) = line.split_once(VERDICT) {
            return if verdict.trim_start().starts_with("ok") {
                Ending::Ok
            } else {
                Ending::Failed
            };
        }
    }
}

/// Without the firmware's control sequences.
fn printable(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // Up to the letter that ends the sequence.
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else if !c.is_control() || c == '\t' {
            out.push(c);
        }
    }
    out
}

fn stop(child: &mut Child) -> Result<()> {
    // Already gone is as good.
    child.kill().ok();
    child.wait().context("waiting for the machine to stop")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(lines: &[&str], limit: Duration) -> Ending {
        let (sender, receiver) = mpsc::sync_channel(8);
        for line in lines {
            sender.send((*line).to_owned()).unwrap();
        }
        // Kept when the limit is what is tested.
        let keep = (limit < Duration::from_secs(1)).then_some(sender);
        let ending = follow(&receiver, limit);
        drop(keep);
        ending
    }

    #[test]
    fn only_a_good_verdict_is_good() {
        let long = Duration::from_secs(60);
        assert_eq!(
            ending(&[UP, &format!("{VERDICT} ok 3 passed")], long),
            Ending::Ok
        );
        assert_eq!(
            ending(&[&format!("{VERDICT} FAILED 1")], long),
            Ending::Failed
        );
        assert_eq!(ending(&[UP, "panic"], long), Ending::NoVerdict);
        assert_eq!(ending(&["boot", "panic"], long), Ending::NotUp);
        assert_eq!(ending(&[], Duration::ZERO), Ending::NotUp);
        assert_eq!(ending(&[UP], Duration::from_millis(200)), Ending::OutOfTime);
        assert_eq!(printable("\u{1b}[2J\u{1b}[01;01Hboot\r"), "boot");
    }
}
