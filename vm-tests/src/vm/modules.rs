//! Kernel modules in the order in which they must be loaded.

use crate::vm::kernel::Kernel;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

/// A module, ready for `init_module(2)`.
#[derive(Debug)]
pub struct Module {
    /// As `lsmod` shows it.
    pub name: String,
    /// The uncompressed object.
    pub image: Vec<u8>,
}

/// Modules that a test loads when it wants them.
#[derive(Debug)]
pub struct LateSet {
    /// By what the guest knows it: the name of its last module.
    pub name: &'static str,
    /// In the order of loading, or why there are none.
    pub modules: Result<Vec<Module>, String>,
}

impl LateSet {
    /// A module of the kernel's own, with what it needs.
    pub fn of(kernel: &Kernel, name: &'static str) -> Self {
        Self::from(name, load_order(kernel, &[name]))
    }

    /// A module that is not the kernel's, with what it needs.
    pub fn foreign(kernel: &Kernel, name: &'static str, module: Result<Module>) -> Self {
        let with_needed = |module: Module| {
            let needed = depends(&module.image);
            let needed: Vec<&str> = needed.iter().map(String::as_str).collect();
            let mut all = load_order(kernel, &needed)?;
            all.push(module);
            Ok(all)
        };
        Self::from(name, module.and_then(with_needed))
    }

    fn from(name: &'static str, modules: Result<Vec<Module>>) -> Self {
        let modules = modules.map_err(|error| format!("{error:#}"));
        Self { name, modules }
    }
}

/// The wanted modules and what they need, needed ones first. A module that is built into the kernel is left out.
pub fn load_order(kernel: &Kernel, wanted: &[&str]) -> Result<Vec<Module>> {
    let files = list(&kernel.modules, "", &["ko", "ko.xz", "ko.zst", "ko.gz"])?;
    let builtin = kernel.modules.join("modules.builtin");
    let builtin = fs::read_to_string(&builtin).ok();
    let mut order: Vec<Module> = Vec::new();
    for name in wanted {
        // Newer packages of Debian's come without the list: there, what has no file is taken for built in.
        let built_in = match &builtin {
            Some(list) => list.lines().any(|path| module_name(path) == *name),
            None => !files.contains_key(*name),
        };
        if !built_in {
            add(name, &kernel.modules, &files, &mut order)?;
        }
    }
    Ok(order)
}

/// Debian's packages come without `modules.dep`: what a module needs is read from the module itself (`depends=` in `.modinfo`).
fn add(
    name: &str,
    root: &Path,
    files: &BTreeMap<String, String>,
    order: &mut Vec<Module>,
) -> Result<()> {
    if order.iter().any(|module| module.name == name) {
        return Ok(());
    }
    let Some(path) = files.get(name) else {
        bail!("the kernel in {} has no module {name}", root.display());
    };
    let image = decompress(&root.join(path))?;
    for needed in depends(&image) {
        // What is neither a file nor loaded is built in.
        if files.contains_key(&needed) {
            add(&needed, root, files, order)?;
        }
    }
    order.push(Module {
        name: name.to_owned(),
        image,
    });
    Ok(())
}

/// The names of the modules that this one needs.
pub fn depends(image: &[u8]) -> Vec<String> {
    let key = b"\0depends=";
    let Some(at) = image.windows(key.len()).position(|window| window == key) else {
        return Vec::new();
    };
    let rest = &image[at + key.len()..];
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(0);
    let names = String::from_utf8_lossy(&rest[..end]);
    names
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

/// Every module below a folder: name, path from the root.
fn list(root: &Path, below: &str, kinds: &[&str]) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let dir = root.join(below);
    for entry in fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))? {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() {
            file.clone()
        } else {
            format!("{below}/{file}")
        };
        if entry.file_type()?.is_dir() {
            found.extend(list(root, &path, kinds)?);
        } else if file
            .split_once('.')
            .is_some_and(|(_, kind)| kinds.contains(&kind))
        {
            found.insert(module_name(&path), path);
        }
    }
    Ok(found)
}

fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.').next().unwrap_or(file).replace('-', "_")
}

fn decompress(path: &Path) -> Result<Vec<u8>> {
    let name = path.display();
    let bytes = fs::read(path).with_context(|| format!("reading {name}"))?;
    match path.extension().and_then(|ext| ext.to_str()) {
        Some("ko") => Ok(bytes),
        Some("gz") => {
            let mut out = Vec::new();
            let mut reader = flate2::read::GzDecoder::new(&bytes[..]);
            reader
                .read_to_end(&mut out)
                .with_context(|| format!("unpacking {name}"))?;
            Ok(out)
        }
        Some(kind @ ("xz" | "zst")) => {
            let program = if kind == "xz" { "xz" } else { "zstd" };
            let output = Command::new(program).arg("-dc").arg(path).output();
            let output = output.with_context(|| format!("starting {program}"))?;
            ensure!(output.status.success(), "{program} cannot unpack {name}");
            Ok(output.stdout)
        }
        _ => bail!("{name}: unknown compression"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_needs_is_in_it() {
        let image = b"\x7fELF..license=GPL\0depends=drm-shmem-helper,drm\0name=vgem\0";
        assert_eq!(depends(image), ["drm_shmem_helper", "drm"]);
        assert_eq!(depends(b"\0depends=\0x"), [""; 0]);
        assert_eq!(module_name("kernel/drivers/gpu/drm/drm-x.ko.xz"), "drm_x");
    }
}
