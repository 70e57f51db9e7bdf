//! Debian's headers for a kernel, and the programs that build modules, made to run on this machine: a kernel of a newer release
//! brings programs that want a newer C library, and was built by a newer compiler.

use crate::vm::apt;
use crate::vm::kernel::Kernel;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the kernel's compiler could and an older one may not: the option, the compiler's flags, and a line of C. Headers and
/// makefiles have another way where an option is not set.
const COMPILER: [(&str, &[&str], &str); 5] = [
    (
        "CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT",
        &["-fmin-function-alignment=16"],
        "",
    ),
    (
        "CONFIG_CC_HAS_ASSUME",
        &[],
        "void f(int x) { __attribute__((__assume__(x))); }",
    ),
    (
        "CONFIG_CC_HAS_COUNTED_BY",
        &[],
        "struct s { int n; int a[] __attribute__((__counted_by__(n))); };",
    ),
    (
        "CONFIG_CC_HAS_COUNTED_BY_PTR",
        &[],
        "struct s { int n; int *a __attribute__((__counted_by__(n))); };",
    ),
    (
        "CONFIG_CC_HAS_MULTIDIMENSIONAL_NONSTRING",
        &[],
        "char s[][4] __attribute__((__nonstring__)) = { \"1234\" };",
    ),
];

/// The folder in which `make` builds modules for this kernel: from the cache, or fetched and made ready now.
pub fn get(kernel: &Kernel) -> Result<PathBuf> {
    let root = kernel.cache.join("headers").join(&kernel.release);
    let sources = root.join("usr/src");
    if !root.exists() {
        let release = &kernel.release;
        fetch(kernel, &root).with_context(|| format!("fetching the headers of {release}"))?;
    }
    Ok(sources.join(format!("linux-headers-{}", kernel.release)))
}

fn fetch(kernel: &Kernel, root: &Path) -> Result<()> {
    let home = kernel.cache.join("headers");
    fs::create_dir_all(&home).with_context(|| format!("making {}", home.display()))?;
    let half = tempfile::tempdir_in(&home).context("making a folder for headers")?;
    let package = format!("linux-headers-{}", kernel.release);
    if unpack(&kernel.cache, &package, half.path()).is_err() {
        // The lists are as old as the kernel is.
        apt::update(&kernel.cache)?;
        unpack(&kernel.cache, &package, half.path()).with_context(|| {
            format!(
                "the mirror may have a newer kernel by now: remove {} to fetch that",
                kernel.cache.display()
            )
        })?;
    }
    move_makefile(half.path(), root, &package)?;
    make_programs_run(kernel, half.path(), root)?;
    match_compiler(&half.path().join("usr/src").join(&package))?;
    // Whole or not at all.
    fs::rename(half.keep(), root).context("renaming the unpacked headers")
}

fn unpack(cache: &Path, package: &str, into: &Path) -> Result<()> {
    let mut packages = vec![package.to_owned()];
    for prefix in ["linux-headers-", "linux-kbuild-"] {
        packages.extend(apt::depends(cache, package, prefix)?);
    }
    ensure!(packages.len() > 2, "this mirror has no package {package}");
    apt::unpack(cache, &packages, into)
}

/// The packaged makefile names the folder that it would be installed in.
fn move_makefile(half: &Path, root: &Path, package: &str) -> Result<()> {
    let path = half.join("usr/src").join(package).join("Makefile");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let here = format!("{}/usr/src/", root.display());
    fs::write(&path, text.replace("/usr/src/", &here)).context("writing a makefile")
}

/// Programs that miss a library of this machine's are run by their own release's loader, with its libraries.
fn make_programs_run(kernel: &Kernel, half: &Path, root: &Path) -> Result<()> {
    let mut lacking = Vec::new();
    programs(&half.join("usr/lib"), &mut lacking)?;
    if lacking.is_empty() {
        return Ok(());
    }
    let packages = ["libc6", "libelf1t64", "zlib1g", "libzstd1"].map(str::to_owned);
    apt::unpack(&kernel.cache, &packages, &half.join("libraries"))?;
    let libraries = Path::new("libraries/usr/lib/x86_64-linux-gnu");
    let loader = "ld-linux-x86-64.so.2";
    ensure!(
        half.join(libraries).join(loader).exists(),
        "the package libc6 has no {loader}"
    );
    let libraries = root.join(libraries).display().to_string();
    for path in lacking {
        let below = path.strip_prefix(half).context("a program is below")?;
        let real = path.with_added_extension("elf");
        fs::rename(&path, &real).context("renaming a program")?;
        let script = format!(
            "#!/bin/sh\nexec {libraries}/{loader} --library-path {libraries} {}.elf \"$@\"\n",
            root.join(below).display()
        );
        fs::write(&path, script).context("writing a script")?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
            .context("making a script executable")?;
    }
    Ok(())
}

/// Programs below a folder that this machine's libraries do not satisfy.
fn programs(dir: &Path, lacking: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            programs(&path, lacking)?;
        } else if kind.is_file() && entry.metadata()?.permissions().mode() & 0o111 != 0 {
            let output = Command::new("ldd")
                .arg(&path)
                .output()
                .context("starting ldd")?;
            let said = [output.stdout, output.stderr].concat();
            if String::from_utf8_lossy(&said).contains("not found") {
                lacking.push(path);
            }
        }
    }
    Ok(())
}

/// Takes out of the configuration what this machine's compiler cannot.
fn match_compiler(build: &Path) -> Result<()> {
    let lost: Vec<&str> = COMPILER
        .iter()
        .filter_map(|(option, flags, line)| match compiles(flags, line) {
            Ok(true) => None,
            Ok(false) => Some(Ok(*option)),
            Err(error) => Some(Err(error)),
        })
        .collect::<Result<_>>()?;
    for file in ["include/config/auto.conf", "include/generated/autoconf.h"] {
        let path = build.join(file);
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let kept = text.lines().filter(|line| {
            let mut words = line.split([' ', '=']).filter(|word| *word != "#define");
            words.next().is_none_or(|option| !lost.contains(&option))
        });
        let kept = kept.fold(String::new(), |text, line| text + line + "\n");
        fs::write(&path, kept).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn compiles(flags: &[&str], line: &str) -> Result<bool> {
    let mut command = Command::new("gcc");
    command
        .args(["-Werror", "-x", "c", "-c", "-", "-o", "/dev/null"])
        .args(flags);
    command.stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().context("starting gcc")?;
    let Some(mut input) = child.stdin.take() else {
        bail!("gcc has no standard input");
    };
    input
        .write_all(line.as_bytes())
        .context("writing a line of C")?;
    drop(input);
    Ok(child.wait().context("waiting for gcc")?.success())
}
