//! Boots one of Debian's kernels with the built binaries, and ends as its verdict says.

use anyhow::{Result, bail};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use vm_tests::vm::modules::LateSet;
use vm_tests::vm::qemu::Ending;
use vm_tests::vm::{image, kernel, modules, qemu, testgpu};

/// Two DRM devices whose render nodes are as real to the fence as a GPU's (`vgem` first: it becomes `renderD128`), and character
/// devices in user space, which may have any number.
const MODULES: [&str; 5] = ["vgem", "virtio_pci", "virtio_gpu", "cuse", "overlay"];

#[derive(Parser)]
struct Args {
    /// 5.10, 6.1, 6.12 or 7.
    #[arg(long, default_value = "6.1")]
    kernel: String,
    /// Folder of the built binaries.
    #[arg(long, default_value = "target/debug")]
    bins: PathBuf,
    /// Seconds after which the machine is stopped.
    #[arg(long, default_value_t = 900)]
    limit: u64,
    /// Fetch the kernel and build its modules into the cache, and stop there.
    #[arg(long)]
    fetch_only: bool,
    /// Another program for the machine: its name there, and the file. May be repeated.
    #[arg(long, value_name = "NAME=FILE", value_parser = name_and_file)]
    with: Vec<(String, PathBuf)>,
    /// Further words for the kernel's command line; of two that say the same, the last counts.
    #[arg(long, default_value = "")]
    append: String,
    /// Run this as root in the machine, instead of the tests.
    #[arg(last = true)]
    command: Vec<String>,
}

fn name_and_file(word: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = word.split_once('=').ok_or("expected NAME=FILE")?;
    Ok((name.to_owned(), file.into()))
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spur-vm: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let kernel = kernel::get(&args.kernel)?;
    println!("spur-vm: kernel {}", kernel.release);
    let late = [
        LateSet::foreign(&kernel, testgpu::NAME, testgpu::get(&kernel)),
        LateSet::of(&kernel, "brd"),
    ];
    for set in &late {
        if let Err(why) = &set.modules {
            println!("spur-vm: no module {} for this kernel: {why}", set.name);
        }
    }
    if args.fetch_only {
        return Ok(());
    }
    let modules = modules::load_order(&kernel, &MODULES)?;
    let scratch = std::env::temp_dir().join(format!("spur-vm-{}", std::process::id()));
    std::fs::create_dir(&scratch)?;
    let path = scratch.join("initrd");
    let started = Instant::now();
    let contents = image::Contents {
        bins: &args.bins,
        with: &args.with,
        modules: &modules,
        late: &late,
        command: &args.command,
    };
    let ending = image::write(&path, &contents).and_then(|()| {
        qemu::boot(
            &kernel,
            &path,
            &args.append,
            Duration::from_secs(args.limit),
        )
    });
    std::fs::remove_dir_all(&scratch)?;
    let seconds = started.elapsed().as_secs();
    match ending? {
        Ending::Ok => println!("spur-vm: ended well after {seconds} s"),
        Ending::NotUp => bail!("the kernel did not come up under emulation, three times"),
        Ending::Failed => bail!("the guest reported a failure"),
        Ending::NoVerdict => bail!("the machine stopped without a verdict after {seconds} s"),
        Ending::OutOfTime => bail!("stopped after {seconds} s without a verdict"),
    }
    Ok(())
}
