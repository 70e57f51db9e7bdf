//! Builds what the virtual machine runs, then hands over to `vm-tests`.

use crate::suite::Tally;
use crate::{setup, sh};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// Kernels that the fence claims to work on, oldest first.
pub(crate) const KERNELS: [&str; 4] = ["5.10", "6.1", "6.12", "7"];

/// Which kernel, and what to run on it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Version as Debian's releases have it: 5.10, 6.1, 6.12 or 7; or all.
    #[arg(long, default_value = "6.1")]
    kernel: String,
    /// Seconds after which a machine is stopped.
    #[arg(long, default_value_t = 1800)]
    limit: u64,
    /// Guest tests whose names contain one of these; all tests without.
    tests: Vec<String>,
    /// Run this as root in the machine, instead of the tests.
    #[arg(last = true)]
    command: Vec<String>,
}

/// Boots one kernel, or all, and ends in one line.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !args.tests.is_empty() && !args.command.is_empty() {
        bail!("name tests or a command, not both");
    }
    let kernels = kernels(&args.kernel)?;
    setup::for_build()?;
    build()?;
    let extras = if args.command.is_empty() {
        vec![kernel_tests()?, meter_print()?]
    } else {
        Vec::new()
    };
    let mut command = args.command.clone();
    if !args.tests.is_empty() {
        command = tests(&args.tests);
    }
    let (mut verdicts, mut good) = (Vec::new(), true);
    for kernel in kernels {
        // A kernel that cannot be booted does not keep the others from it.
        let (verdict, ok) = match boot(kernel, args.limit, &extras, &command) {
            Ok(outcome) => (outcome.verdict(), outcome.ok),
            Err(error) => (format!("FAILED ({error:#})"), false),
        };
        good &= ok;
        verdicts.push(format!("kernel {kernel} {verdict}"));
    }
    println!("vm: {}", verdicts.join("; "));
    if good {
        return Ok(());
    }
    bail!("not every machine ended well")
}

/// One of the kernels, or all.
pub(crate) fn kernels(wanted: &str) -> Result<Vec<&'static str>> {
    let found: Vec<&str> = KERNELS
        .into_iter()
        .filter(|kernel| wanted == "all" || *kernel == wanted)
        .collect();
    if found.is_empty() {
        bail!("no kernel {wanted}: choose {} or all", KERNELS.join(", "));
    }
    Ok(found)
}

/// The guest's command that runs the tests whose names contain one of these words.
pub(crate) fn tests(words: &[String]) -> Vec<String> {
    std::iter::once("guest-tests".to_owned())
        .chain(words.iter().cloned())
        .collect()
}

/// What a boot came to.
pub(crate) struct Outcome {
    /// The verdict was good.
    pub(crate) ok: bool,
    /// What the machine said, line by line.
    pub(crate) lines: Vec<String>,
}

impl Outcome {
    /// Whether it was stopped in the middle, with nothing failed until then: the machine hung, or was too slow by far.
    pub(crate) fn stood_still(&self) -> bool {
        let began = self.lines.iter().any(|line| line.starts_with("guest: "));
        let judged = |line: &String| {
            line.contains("spur-vm verdict:")
                || line.starts_with("guest: ") && line.contains(" FAILED")
        };
        began && !self.ok && !self.lines.iter().any(judged)
    }

    /// In a few words.
    fn verdict(&self) -> String {
        let mut tally = Tally::default();
        for line in &self.lines {
            tally.read_guest(line);
        }
        format!(
            "{} ({})",
            if self.ok { "ok" } else { "FAILED" },
            tally.sums()
        )
    }
}

/// Builds the binaries that go into the guest.
pub(crate) fn build() -> Result<()> {
    let packages = ["-p", "spur-ctl", "-p", "spur-agent", "-p", "vm-tests"];
    sh::run(sh::cargo(&["build", "--locked", "--bins"]).args(packages))
}

/// A program for the guest that is none of the binaries.
pub(crate) struct Extra {
    /// Its name in the guest.
    name: &'static str,
    /// Where it is here.
    pub(crate) file: PathBuf,
}

/// Builds the tests of the BPF programs.
pub(crate) fn kernel_tests() -> Result<Extra> {
    let file = build_ebpf("--test", "kernel")?;
    Ok(Extra {
        name: "kernel-tests",
        file,
    })
}

/// Builds the program that prints what the meter counts.
pub(crate) fn meter_print() -> Result<Extra> {
    let file = build_ebpf("--example", "meter_print")?;
    Ok(Extra {
        name: "meter-print",
        file,
    })
}

/// Builds a program of spur-ebpf's, and says where it is.
fn build_ebpf(kind: &str, target: &str) -> Result<PathBuf> {
    let args = [
        "build",
        "--locked",
        "-p",
        "spur-ebpf",
        kind,
        target,
        "--message-format",
        "json-render-diagnostics",
    ];
    let text = sh::output(&mut sh::cargo(&args))?;
    let program =
        cargo_metadata::Message::parse_stream(text.as_bytes()).find_map(|message| match message {
            Ok(cargo_metadata::Message::CompilerArtifact(artifact))
                if artifact.target.name == target =>
            {
                artifact.executable
            }
            _ => None,
        });
    program
        .map(Into::into)
        .with_context(|| format!("cargo built no {target} of spur-ebpf's"))
}

/// Boots a kernel with the binaries as they are built, and more programs.
pub(crate) fn boot(
    kernel: &str,
    limit: u64,
    extras: &[Extra],
    command: &[String],
) -> Result<Outcome> {
    let bins = sh::bin_dir()?;
    let mut vm = std::process::Command::new(bins.join("spur-vm"));
    vm.arg("--kernel")
        .arg(kernel)
        .arg("--limit")
        .arg(limit.to_string())
        .arg("--bins")
        .arg(&bins);
    for Extra { name, file } in extras {
        vm.arg("--with").arg(format!("{name}={}", file.display()));
    }
    if !command.is_empty() {
        vm.arg("--").args(command);
    }
    let mut lines = Vec::new();
    let ok = sh::listen(&mut vm, |line| {
        lines.push(line.to_owned());
        true
    })?;
    Ok(Outcome { ok, lines })
}
