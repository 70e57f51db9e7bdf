//! Reading the lists: comma-separated values with a line of column names, in openb's columns. Columns may come in any order,
//! and others may stand beside them.

use spur_core::plan::frag::{Devices, Models, Part, State, WHOLE};
use spur_core::plan::mix::Class;
use std::collections::BTreeMap;

/// Most lines of a list.
const LINES_MAX: usize = 10_000_000;
/// Most GPUs of a node.
const GPUS_MAX: u64 = 4_096;

/// What is wrong with a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadList {
    /// A value that its column cannot have.
    #[error("{file}:{line}: column {column}: {value:?} is not {wanted}")]
    Value {
        /// The file, as it was named.
        file: String,
        /// From 1; the names of the columns are line 1.
        line: usize,
        /// Its name.
        column: &'static str,
        /// What stands there.
        value: String,
        /// What should.
        wanted: String,
    },
    /// A line with fewer or more values than there are columns.
    #[error("{file}:{line}: {found} values, but the first line names {wanted} columns")]
    Width {
        /// The file, as it was named.
        file: String,
        /// From 1.
        line: usize,
        /// Values on the line.
        found: usize,
        /// Columns.
        wanted: usize,
    },
    /// A column that is needed.
    #[error("{file}:1: there is no column {column}; it names {found:?}")]
    Column {
        /// The file, as it was named.
        file: String,
        /// What is missing.
        column: &'static str,
        /// The first line.
        found: String,
    },
    /// Nothing to work with.
    #[error("{file}: {why}")]
    Empty {
        /// The file, as it was named.
        file: String,
        /// What it lacks.
        why: String,
    },
}

/// A node with GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) state: State,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) name: String,
    pub(super) part: Part,
    /// Tasks that ask for the same have the same number.
    pub(super) class: usize,
}

/// Nodes and tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lists {
    nodes: Vec<Node>,
    /// By name.
    tasks: Vec<Task>,
    models: Models,
    /// Nodes without GPUs, left out.
    bare_nodes: usize,
    /// By class: the models that it accepts, as they were listed.
    accepts: Vec<String>,
    gpus: u64,
}

impl Lists {
    /// Reads both from text; the file names are for errors.
    pub fn read(nodes: (&str, &str), tasks: (&str, &str)) -> Result<Self, BadList> {
        let (rows, bare_nodes) = node_rows(nodes.0, nodes.1)?;
        let models = Models::of(rows.iter().map(|row| row.model.as_str()));
        if models.len() > Models::MAX {
            let why = format!(
                "it has {} GPU models; at most {} are told apart",
                models.len(),
                Models::MAX
            );
            return Err(empty(nodes.0, why));
        }
        let gpus = rows.iter().map(|row| u64::from(row.gpus)).sum();
        let nodes = rows.into_iter().map(|row| row.node(&models)).collect();
        let mut lists = Self {
            nodes,
            tasks: Vec::new(),
            models,
            bare_nodes,
            accepts: Vec::new(),
            gpus,
        };
        lists.read_tasks(tasks.0, tasks.1)?;
        Ok(lists)
    }

    fn read_tasks(&mut self, file: &str, text: &str) -> Result<(), BadList> {
        const NEEDED: [&str; 4] = ["name", "cpu_milli", "memory_mib", "num_gpu"];
        let table = Table::new(file, text, &NEEDED)?;
        let mut classes: BTreeMap<(Part, String), usize> = BTreeMap::new();
        for row in table.rows() {
            let row = row?;
            let accepts = row.text("gpu_spec").to_owned();
            let part = self.part(&row, &accepts)?;
            let next = classes.len();
            let class = *classes.entry((part, accepts.clone())).or_insert(next);
            if class == next {
                self.accepts.push(accepts);
            }
            let name = row.text("name").to_owned();
            self.tasks.push(Task { name, part, class });
        }
        if self.tasks.is_empty() {
            return Err(empty(file, "it has no task".to_owned()));
        }
        self.tasks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }

    fn part(&self, row: &Row<'_>, accepts: &str) -> Result<Part, BadList> {
        let gpus = row.whole("num_gpu", 0, GPUS_MAX)?;
        let whole = u64::from(WHOLE);
        let milli = match gpus {
            0 => 0,
            _ if row.text("gpu_milli").is_empty() => whole,
            _ => row.whole("gpu_milli", 1, whole)?,
        };
        Ok(Part {
            cpu_milli: row.amount("cpu_milli")?,
            memory_mib: row.amount("memory_mib")?,
            gpus: u32::try_from(gpus).unwrap_or(u32::MAX),
            milli: u16::try_from(milli).unwrap_or(WHOLE),
            models: if gpus == 0 {
                u64::MAX
            } else {
                self.models.mask(accepts)
            },
            one_socket: false,
        })
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    pub(super) fn models(&self) -> &Models {
        &self.models
    }

    /// How many classes of tasks there are.
    pub(super) fn classes(&self) -> usize {
        self.accepts.len()
    }

    /// What the mix learns of a task.
    pub(super) fn class_of(&self, task: &Task) -> Class {
        Class {
            gpus: task.part.gpus,
            milli: task.part.milli,
            cpu_milli: task.part.cpu_milli,
            memory_mib: task.part.memory_mib,
            models: self.accepts.get(task.class).cloned().unwrap_or_default(),
        }
    }

    /// All GPUs, in thousandths.
    pub(super) fn capacity(&self) -> u64 {
        self.gpus * u64::from(WHOLE)
    }

    /// What a task asks for, in thousandths of a GPU.
    pub(super) fn demand(&self, task: usize) -> u64 {
        let part = self.tasks.get(task).map(|task| task.part);
        part.map_or(0, |part| u64::from(part.gpus) * u64::from(part.milli))
    }

    /// Nodes with GPUs, nodes without (left out), GPUs, tasks.
    pub(super) fn counts(&self) -> [u64; 4] {
        let tasks = self.tasks.len() as u64;
        [
            self.nodes.len() as u64,
            self.bare_nodes as u64,
            self.gpus,
            tasks,
        ]
    }
}

struct NodeRow {
    name: String,
    cpu_milli: u64,
    memory_mib: u64,
    gpus: u16,
    model: String,
}

impl NodeRow {
    fn node(self, models: &Models) -> Node {
        let mut state = State::new(self.cpu_milli, self.memory_mib);
        state.add(Devices {
            free: WHOLE,
            model: models.id(&self.model).unwrap_or(0),
            socket: 0,
            count: self.gpus,
        });
        Node {
            name: self.name,
            state,
        }
    }
}

/// Nodes with GPUs, and how many have none.
fn node_rows(file: &str, text: &str) -> Result<(Vec<NodeRow>, usize), BadList> {
    let table = Table::new(
        file,
        text,
        &["sn", "cpu_milli", "memory_mib", "gpu", "model"],
    )?;
    let (mut nodes, mut bare) = (Vec::new(), 0);
    for row in table.rows() {
        let row = row?;
        let node = NodeRow {
            name: row.text("sn").to_owned(),
            cpu_milli: row.amount("cpu_milli")?,
            memory_mib: row.amount("memory_mib")?,
            gpus: u16::try_from(row.whole("gpu", 0, GPUS_MAX)?).unwrap_or(u16::MAX),
            model: row.text("model").to_owned(),
        };
        match node.gpus {
            0 => bare += 1,
            _ => nodes.push(node),
        }
    }
    if nodes.is_empty() {
        return Err(empty(file, "it has no node with a GPU".to_owned()));
    }
    Ok((nodes, bare))
}

fn empty(file: &str, why: String) -> BadList {
    let file = file.to_owned();
    BadList::Empty { file, why }
}

/// A text with named columns.
struct Table<'a> {
    file: &'a str,
    columns: Vec<&'a str>,
    text: &'a str,
}

/// One of its lines.
struct Row<'a> {
    table: &'a Table<'a>,
    line: usize,
    values: Vec<&'a str>,
}

impl<'a> Table<'a> {
    fn new(file: &'a str, text: &'a str, needed: &[&'static str]) -> Result<Self, BadList> {
        let text = text.trim_start_matches('\u{feff}');
        let first = text.lines().next().unwrap_or_default();
        let table = Self {
            file,
            columns: split(first),
            text,
        };
        match needed.iter().find(|name| !table.columns.contains(name)) {
            None => Ok(table),
            Some(column) => Err(BadList::Column {
                file: file.to_owned(),
                column,
                found: first.to_owned(),
            }),
        }
    }

    /// All lines but the first and empty ones.
    fn rows(&'a self) -> impl Iterator<Item = Result<Row<'a>, BadList>> {
        let lines = (1..).zip(self.text.lines()).skip(1);
        let lines = lines.filter(|(_, text)| !text.trim().is_empty());
        lines.map(|(line, text)| self.row(line, text))
    }

    fn row(&'a self, line: usize, text: &'a str) -> Result<Row<'a>, BadList> {
        let values = split(text);
        let file = self.file.to_owned();
        if line > LINES_MAX {
            let why = format!("it has more than {LINES_MAX} lines");
            return Err(BadList::Empty { file, why });
        }
        if values.len() != self.columns.len() {
            return Err(BadList::Width {
                file,
                line,
                found: values.len(),
                wanted: self.columns.len(),
            });
        }
        Ok(Row {
            table: self,
            line,
            values,
        })
    }
}

fn split(line: &str) -> Vec<&str> {
    line.split(',')
        .map(|value| value.trim().trim_matches('"').trim())
        .collect()
}

impl Row<'_> {
    /// A value as it stands; empty if there is no such column.
    fn text(&self, column: &str) -> &str {
        let at = self.table.columns.iter().position(|name| *name == column);
        at.and_then(|at| self.values.get(at))
            .copied()
            .unwrap_or_default()
    }

    fn bad(&self, column: &'static str, wanted: String) -> BadList {
        BadList::Value {
            file: self.table.file.to_owned(),
            line: self.line,
            column,
            value: self.text(column).to_owned(),
            wanted,
        }
    }

    /// A whole number, which may be written with a fraction of 0.
    fn whole(&self, column: &'static str, least: u64, most: u64) -> Result<u64, BadList> {
        let number = decimal(self.text(column));
        let number = number
            .filter(|(_, fraction)| !fraction)
            .map(|(whole, _)| whole);
        let number = number.filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.bad(column, format!("a whole number from {least} to {most}")))
    }

    /// An amount; a fraction counts as one more.
    fn amount(&self, column: &'static str) -> Result<u64, BadList> {
        /// A million CPUs, or a pebibyte in MiB.
        const MOST: u64 = 1 << 30;
        let number = decimal(self.text(column));
        let number = number.map(|(whole, fraction)| whole.saturating_add(u64::from(fraction)));
        let number = number.filter(|number| *number <= MOST);
        number.ok_or_else(|| self.bad(column, format!("a number from 0 to {MOST}")))
    }
}

/// The whole part of a number, and whether there is more than that.
fn decimal(text: &str) -> Option<(u64, bool)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    Some((
        whole.parse().ok()?,
        fraction.bytes().any(|byte| byte != b'0'),
    ))
}
