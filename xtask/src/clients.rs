//! `cargo xtask clients`: programs of others that use Slurm's commands, as they come from their registry, running real jobs on a
//! cluster here as an ordinary user. Each checks its own results, and says of each part in a line that begins with `*` what it ran.

use crate::dev::DevCluster;
use crate::setup::{self, Need, command, file, program};
use crate::{sh, vm};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Seconds that one client may take.
const LIMIT: &str = "600";

/// Lines that are shown of one that fails.
const SHOWN: usize = 40;

/// The interpreter: one that every user may run, and that can make environments (`python3-venv`).
const PYTHON: &str = "/usr/bin/python3";

/// What Debian has for all of them.
const COMMON: [Need; 2] = [
    program("python3", PYTHON, "runs the clients"),
    command(
        "python3-venv",
        &[PYTHON, "-c", "import ensurepip"],
        "makes the clients' environments",
    ),
];

const MPICH: [Need; 3] = [
    program("gcc", "gcc", "compiles the MPI programs"),
    program("mpich", "mpirun.mpich", "MPICH"),
    file(
        "libmpich-dev",
        "/usr/include/x86_64-linux-gnu/mpich/mpi.h",
        "compiles MPICH's programs",
    ),
];

const OPENMPI: [Need; 3] = [
    program("gcc", "gcc", "compiles the MPI programs"),
    program("openmpi-bin", "mpirun.openmpi", "Open MPI"),
    program(
        "libopenmpi-dev",
        "mpicc.openmpi",
        "compiles Open MPI's programs",
    ),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these.
    names: Vec<String>,
    /// Say which there are, with their versions.
    #[arg(long)]
    list: bool,
}

/// A client.
struct Client {
    name: &'static str,
    /// What is installed for it from its registry, to the version.
    packages: &'static [&'static str],
    /// What it takes from Debian, in the release's version.
    needs: &'static [Need],
    /// Uses it and checks what comes of it.
    program: &'static str,
}

const CLIENTS: [Client; 12] = [
    Client {
        name: "submitit",
        packages: &["submitit==1.5.4"],
        needs: &[],
        program: include_str!("clients/submitit.py"),
    },
    Client {
        name: "dask-jobqueue",
        packages: &["dask-jobqueue==0.9.0", "distributed==2026.8.0"],
        needs: &[],
        program: include_str!("clients/dask.py"),
    },
    Client {
        name: "parsl",
        packages: &["parsl==2026.10.26"],
        needs: &[],
        program: include_str!("clients/parsl.py"),
    },
    Client {
        name: "psij-python",
        packages: &["psij-python==0.9.11"],
        needs: &[],
        program: include_str!("clients/psij.py"),
    },
    Client {
        name: "snakemake",
        packages: &[
            "snakemake==9.27.1",
            "snakemake-executor-plugin-slurm==2.8.0",
            "snakemake-executor-plugin-slurm-jobstep==0.6.1",
        ],
        needs: &[],
        program: include_str!("clients/snakemake.py"),
    },
    Client {
        name: "reframe",
        packages: &["reframe-hpc==4.10.4"],
        needs: &[],
        program: include_str!("clients/reframe.py"),
    },
    Client {
        name: "hydra",
        packages: &["hydra-submitit-launcher==1.2.0", "submitit==1.5.4"],
        needs: &[],
        program: include_str!("clients/hydra.py"),
    },
    Client {
        name: "simple-slurm",
        packages: &["simple-slurm==0.3.6"],
        needs: &[],
        program: include_str!("clients/simple_slurm.py"),
    },
    Client {
        name: "gridtk",
        packages: &["gridtk==4.0.0"],
        needs: &[],
        program: include_str!("clients/gridtk.py"),
    },
    Client {
        name: "jax",
        packages: &["jax==0.10.2"],
        needs: &[],
        program: include_str!("clients/jax.py"),
    },
    Client {
        name: "mpich",
        packages: &[],
        needs: &MPICH,
        program: include_str!("clients/mpich.py"),
    },
    Client {
        name: "openmpi",
        packages: &[],
        needs: &OPENMPI,
        program: include_str!("clients/openmpi.py"),
    },
];

/// Runs them one after the other.
pub(crate) fn run(args: &Args) -> Result<()> {
    let known: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
    for name in &args.names {
        ensure!(
            known.contains(&name.as_str()),
            "there is no client {name}: {}",
            known.join(", ")
        );
    }
    let wanted =
        |client: &&Client| args.names.is_empty() || args.names.iter().any(|n| n == client.name);
    let wanted: Vec<&Client> = CLIENTS.iter().filter(wanted).collect();
    if args.list {
        for client in wanted {
            println!("{}\t{}", client.name, client.versions().join(" "));
        }
        return Ok(());
    }
    ensure!(
        sh::is_root(),
        "clusters that fence take root: run it by sudo"
    );
    vm::build()?;
    let mut ran = 0;
    for client in &wanted {
        let begun = Instant::now();
        match client.run() {
            Ok(()) => {
                ran += 1;
                println!("{}: ok, {} s", client.name, begun.elapsed().as_secs());
            }
            Err(why) => println!("{}: did not run: {why:#}", client.name),
        }
    }
    println!("{ran} of {} clients ran", wanted.len());
    ensure!(ran == wanted.len(), "not every client ran");
    Ok(())
}

impl Client {
    /// Where it comes from.
    fn versions(&self) -> Vec<String> {
        let debian = self
            .needs
            .iter()
            .map(|need| format!("Debian's {}", need.package()));
        let registry = self.packages.iter().map(|package| (*package).to_owned());
        registry.chain(debian).collect()
    }

    fn run(&self) -> Result<()> {
        let needs: Vec<&Need> = COMMON.iter().chain(self.needs).collect();
        setup::provide(&needs).context("its packages of Debian's cannot be installed")?;
        let python = self
            .environment()
            .context("its packages cannot be installed from their registry")?;
        let nodes = [
            "--nodes", "4", "--gpus", "2", "--cpus", "8", "--memory", "32G",
        ];
        let cluster = DevCluster::up(&sh::bin_dir()?, &nodes)?;
        let done = self.run_on(&cluster, &python);
        cluster.down()?;
        done
    }

    fn run_on(&self, cluster: &DevCluster, python: &Path) -> Result<()> {
        let program = cluster.dir().join("client.py");
        fs::write(&program, self.program).context("writing the program")?;
        let ring = cluster.dir().join("ring.c");
        fs::copy(sh::root().join("vm-tests/tests/cluster/mpi/ring.c"), ring)
            .context("copying the MPI program")?;
        let (interpreter, program) = (python.to_string_lossy(), program.to_string_lossy());
        let bin = python.parent().unwrap_or(Path::new("/usr/bin"));
        let path = format!("PATH={}:$PATH exec \"$@\"", bin.display());
        let words = [
            "timeout",
            LIMIT,
            "sh",
            "-c",
            &path,
            "sh",
            &interpreter,
            &program,
        ];
        let output = cluster
            .command(&words)
            .env("PYTHONUNBUFFERED", "1")
            .output()
            .context("starting it")?;
        let checks = String::from_utf8_lossy(&output.stdout).into_owned();
        for line in checks.lines().filter(|line| line.starts_with("* ")) {
            println!("{}: {}", self.name, line.trim_start_matches("* "));
        }
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        let lines: Vec<&str> = said.lines().collect();
        let tail = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
        anyhow::bail!("ended with {}\n{tail}", output.status)
    }

    /// The interpreter with its packages: made once for each set of versions, and kept outside the tree.
    fn environment(&self) -> Result<PathBuf> {
        if self.packages.is_empty() {
            return Ok(PYTHON.into());
        }
        let dir = cache().join(self.name);
        let python = dir.join("bin/python3");
        let (versions, done) = (self.packages.join("\n"), dir.join("versions"));
        if fs::read_to_string(&done).is_ok_and(|known| known == versions) {
            return Ok(python);
        }
        make_cache(&cache())?;
        let make = ["-m", "venv", "--clear"];
        sh::run(Command::new(PYTHON).args(make).arg(&dir))?;
        let install = ["-m", "pip", "-q", "--disable-pip-version-check", "install"];
        sh::run(Command::new(&python).args(install).args(self.packages))?;
        fs::write(&done, versions).context("noting the versions")?;
        Ok(python)
    }
}

/// Makes the folder of environments, for every user to enter. One that is there already stays as somebody wanted it.
fn make_cache(dir: &Path) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(dir).context("making a folder")?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).context("letting users in")
}

/// Where environments are kept: where every user may enter.
fn cache() -> PathBuf {
    std::env::var_os("SPUR_CLIENTS").map_or_else(|| "/var/cache/spur-clients".into(), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_folder_that_was_made_here_is_opened_to_all() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |dir: &Path| fs::metadata(dir).unwrap().permissions().mode() & 0o777;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        make_cache(dir.path()).unwrap();
        assert_eq!(mode(dir.path()), 0o700);
        let made = dir.path().join("made");
        make_cache(&made).unwrap();
        assert_eq!((mode(&made), mode(dir.path())), (0o755, 0o700));
    }
}
