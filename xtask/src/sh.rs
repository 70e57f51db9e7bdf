//! Running other programs: announced, checked, and where wanted, listened to.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("xtask lives in a folder of the workspace")
        .to_path_buf()
}

/// `cargo`, the one that runs us, in the workspace.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// The folder of built binaries (dev profile), wherever cargo was told to put it.
pub(crate) fn bin_dir() -> Result<PathBuf> {
    let metadata = cargo_metadata::MetadataCommand::new()
        .current_dir(root())
        .no_deps()
        .exec()
        .context("asking cargo where it builds")?;
    Ok(metadata.target_directory.join("debug").into_std_path_buf())
}

/// Whether a program is on the path (or in the folders of system programs).
pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .any(|dir| dir.join(program).is_file())
}

/// Whether we are root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs a command, shown first; an exit status other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    announce(command);
    let status = command
        .status()
        .with_context(|| format!("starting {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{} ended with {status}", line(command));
    }
    Ok(())
}

/// Runs a command and returns its standard output; its messages pass through.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {:?}", command.get_program()))?;
    if !output.status.success() {
        bail!("{} ended with {}", line(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command and gives `seen` each line of its output (both streams), which is shown if that says so. Returns whether the
/// command succeeded.
pub(crate) fn listen(command: &mut Command, mut seen: impl FnMut(&str) -> bool) -> Result<bool> {
    announce(command);
    let (reader, writer) = std::io::pipe().context("making a pipe")?;
    command
        .stdout(writer.try_clone().context("copying a pipe")?)
        .stderr(writer);
    command.stdin(Stdio::null());
    let mut child = command
        .spawn()
        .with_context(|| format!("starting {:?}", command.get_program()))?;
    // Our copies of the writing end must go, or the reader below never sees the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut reader = BufReader::new(reader);
    let mut bytes = Vec::new();
    while reader
        .read_until(b'\n', &mut bytes)
        .context("reading a program's output")?
        > 0
    {
        let text = String::from_utf8_lossy(&bytes);
        if seen(text.trim_end()) {
            print!("{text}");
        }
        bytes.clear();
    }
    Ok(child.wait().context("waiting for a program")?.success())
}

fn announce(command: &Command) {
    println!("$ {}", line(command));
}

fn line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    if let Some(name) = Path::new(&words[0]).file_name() {
        words[0] = name.to_string_lossy().into_owned();
    }
    words.extend(
        command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned()),
    );
    words.join(" ")
}
