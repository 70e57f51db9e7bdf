//! `spur completion`, `spur man` and `spur compat`: what can be made from the table of options.

use super::failure::Failure;
use super::flags::{Command, compat, completion, man};
use super::output;
use super::render::accounts::fields;
use super::render::format::{Cell, Column, Table};
use super::render::{job_columns, node_columns, step_columns};
use std::ffi::OsString;
use std::path::Path;

/// `spur completion SHELL`.
pub fn completion(args: &[OsString]) -> Result<u8, Failure> {
    let shells = completion::SHELLS.join(", ");
    let [shell] = args else {
        return Err(Failure::plain(
            format!("Usage: spur completion SHELL, where SHELL is one of {shells}"),
            2,
        ));
    };
    let script = shell.to_str().and_then(completion::script);
    let unknown = || {
        let why = format!("there are no completions for {shell:?}: {shells} have some");
        Failure::error("spur completion", why)
    };
    output::print(&script.ok_or_else(unknown)?);
    Ok(0)
}

/// `spur man DIR`.
pub fn man(args: &[OsString]) -> Result<u8, Failure> {
    let [dir] = args else {
        let usage = "Usage: spur man DIR, which writes DIR/man1/srun.1 and so on";
        return Err(Failure::plain(usage, 2));
    };
    write_pages(Path::new(dir))
        .map_err(|(path, why)| Failure::error("spur man", format!("cannot write {path}: {why}")))?;
    Ok(0)
}

/// `spur compat`: how much of each command of Slurm's is here.
pub fn compat(args: &[OsString]) -> Result<u8, Failure> {
    if !args.is_empty() {
        return Err(Failure::plain("Usage: spur compat", 2));
    }
    output::print(&compat::table());
    output::print(&columns());
    Ok(0)
}

/// Columns of the views: those that show something, and those that always show the same because nothing here stands behind them.
fn columns() -> String {
    fn count<T>(table: &Table<T>) -> (usize, usize) {
        let fixed = |column: &&Column<T>| matches!(column.cell, Cell::Fixed(_));
        let constant = table.columns().filter(fixed).count();
        (table.columns().count() - constant, constant)
    }
    let steps = fields::of_steps().count();
    let lines = [
        ("squeue", count(&job_columns::TABLE)),
        ("squeue -s", count(&step_columns::TABLE)),
        ("sinfo", count(&node_columns::TABLE)),
        ("sacct", (fields::FIELDS.len(), 0)),
        ("sstat", (steps, 0)),
    ];
    let mut text = format!("\n{:<10} {:>9} {:>9}\n", "columns", "supported", "constant");
    for (name, (supported, constant)) in lines {
        text.push_str(&format!("{name:<10} {supported:>9} {constant:>9}\n"));
    }
    text
}

/// Writes every page below `dir`; the error says what could not be written.
pub fn write_pages(dir: &Path) -> Result<(), (String, std::io::Error)> {
    let section = dir.join("man1");
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |why| (path, why)
    };
    std::fs::create_dir_all(&section).map_err(failed(&section))?;
    for command in Command::all() {
        let file = section.join(format!("{}.1", man::name(command)));
        std::fs::write(&file, man::page(command)).map_err(failed(&file))?;
    }
    Ok(())
}
