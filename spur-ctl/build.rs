//! Links the unwinder into the binary: every command is a process that ends after one question, and one shared library less to
//! load is a tenth of a millisecond less each time. For the same reason the commands' binary is at a fixed address (see
//! `docs/decisions/programs.md`); the controller's is not.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rustc-link-arg-bin=spur=-no-pie");
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let Ok(out) = Command::new(&cc)
        .arg("-print-file-name=libgcc_eh.a")
        .output()
    else {
        return;
    };
    let path = std::path::PathBuf::from(String::from_utf8_lossy(&out.stdout).trim());
    // A compiler that has none answers with the bare name; the shared one does then, as everywhere.
    if let Some(folder) = path.parent().filter(|folder| folder.is_absolute()) {
        println!("cargo::rustc-link-search=native={}", folder.display());
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}
