//! What srun knows of its tasks: where each is, how it ended, what that makes of srun's own exit code. Pure.

use spur_core::id::StepId;
use spur_core::job::state::ExitStatus;
use spur_core::resources::IdSet;
use spur_core::slurm::signal;
use std::collections::BTreeMap;

/// `SIGKILL`.
const KILL: u8 = 9;

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Starting,
    Running,
    Ended(End),
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Its status.
    pub status: ExitStatus,
    /// It left a core.
    pub core: bool,
}

/// The tasks of a step.
#[derive(Clone, Debug)]
pub struct Tasks {
    step: StepId,
    hosts: Vec<String>,
    /// By task id: index of its node and its life.
    lives: BTreeMap<u32, (usize, Life)>,
    /// Ended tasks that were not reported yet, in order.
    unreported: Vec<u32>,
    /// Nodes whose out-of-memory killer struck.
    oom: Vec<bool>,
    /// The code with which one of them ended them all.
    aborted: Option<u8>,
}

impl Tasks {
    /// All tasks, each on its node.
    pub fn new(step: StepId, nodes: &[(String, Vec<u32>)]) -> Self {
        let on = |(at, (_, ids)): (usize, &(String, Vec<u32>))| -> Vec<_> {
            ids.iter().map(|id| (*id, (at, Life::Starting))).collect()
        };
        Self {
            step,
            hosts: nodes.iter().map(|(host, _)| host.clone()).collect(),
            lives: nodes.iter().enumerate().flat_map(on).collect(),
            unreported: Vec::new(),
            oom: vec![false; nodes.len()],
            aborted: None,
        }
    }

    /// The node's tasks run; how many they are.
    pub fn started(&mut self, node: usize) -> usize {
        let mut count = 0;
        for (at, life) in self.lives.values_mut().filter(|(at, _)| *at == node) {
            debug_assert_eq!(*at, node);
            count += 1;
            if *life == Life::Starting {
                *life = Life::Running;
            }
        }
        count
    }

    /// A task ended. Tasks that are not the step's, or ended before, count for nothing.
    pub fn ended(&mut self, task: u32, end: End) {
        if let Some((_, life)) = self.lives.get_mut(&task)
            && !matches!(life, Life::Ended(_))
        {
            *life = Life::Ended(end);
            self.unreported.push(task);
        }
    }

    /// A node's out-of-memory killer struck.
    pub fn out_of_memory(&mut self, node: usize) {
        if let Some(oom) = self.oom.get_mut(node) {
            *oom = true;
        }
    }

    /// Whether a task was killed by force.
    pub fn any_killed(&self) -> bool {
        self.ends().any(|end| end.status.signal == KILL)
    }

    fn ends(&self) -> impl Iterator<Item = End> + '_ {
        self.lives.values().filter_map(|(_, life)| match life {
            Life::Ended(end) => Some(*end),
            Life::Starting | Life::Running => None,
        })
    }

    /// One of them ends them all with this code. The first counts.
    pub fn abort(&mut self, code: u8) {
        self.aborted.get_or_insert(code);
    }

    /// The highest code among the tasks, or that with which they were aborted; signals count as 128 and their number.
    pub fn exit_code(&self) -> u8 {
        if let Some(code) = self.aborted {
            return code;
        }
        self.ends()
            .map(|end| signal::shell_code(end.status))
            .max()
            .unwrap_or(0)
    }

    /// Lines about tasks that ended since the last call: (whether it is an error, text). Neighbours that ended alike on one
    /// node share a line.
    pub fn report(&mut self) -> Vec<(bool, String)> {
        let mut ids = std::mem::take(&mut self.unreported);
        ids.sort_unstable();
        let told = |id: &u32| {
            let (node, life) = self.lives.get(id)?;
            match life {
                Life::Ended(end) => Some((*id, *node, *end)),
                Life::Starting | Life::Running => None,
            }
        };
        let ended: Vec<(u32, usize, End)> = ids.iter().filter_map(told).collect();
        let alike = ended.chunk_by(|a, b| (a.1, a.2) == (b.1, b.2));
        alike.map(|tasks| self.line(tasks)).collect()
    }

    fn line(&self, tasks: &[(u32, usize, End)]) -> (bool, String) {
        let (_, node, end) = tasks[0];
        let host = self.hosts.get(node).map_or("?", String::as_str);
        let set: IdSet = tasks.iter().map(|(id, ..)| *id).collect();
        let word = if tasks.len() == 1 { "task" } else { "tasks" };
        let failed = end.status != ExitStatus::default();
        let oom = end.status.signal == KILL && self.oom.get(node).copied().unwrap_or(false);
        let how = match (failed, oom) {
            (false, _) => "Completed".to_owned(),
            (true, true) => "Out Of Memory".to_owned(),
            (true, false) => signal::outcome(end.status),
        };
        let core = if end.core { " (core dumped)" } else { "" };
        (failed, format!("{host}: {word} {set}: {how}{core}"))
    }

    /// Lines about where every task is, for Ctrl-C.
    pub fn states(&self) -> Vec<String> {
        let mut groups: Vec<(&str, IdSet)> = Vec::new();
        for (id, (_, life)) in &self.lives {
            let word = match life {
                Life::Starting => "unknown",
                Life::Running => "running",
                Life::Ended(end) if end.status == ExitStatus::default() => "exited",
                Life::Ended(_) => "exited abnormally",
            };
            match groups.iter_mut().find(|(known, _)| *known == word) {
                Some((_, set)) => {
                    set.insert(*id);
                }
                None => groups.push((word, IdSet::from_iter([*id]))),
            }
        }
        let line = |(word, set): (&str, IdSet)| {
            let tasks = if set.len() == 1 { "task" } else { "tasks" };
            format!("StepId={} {tasks} {set}: {word}", self.step)
        };
        groups.into_iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spur_core::id::{JobId, StepKind};

    fn tasks() -> Tasks {
        let step = StepId {
            job: JobId(7),
            step: StepKind::Numbered(0),
        };
        Tasks::new(
            step,
            &[("n1".to_owned(), vec![0, 1]), ("n2".to_owned(), vec![2, 3])],
        )
    }

    fn end(code: u8, signal: u8) -> End {
        End {
            status: ExitStatus { code, signal },
            core: false,
        }
    }

    #[test]
    fn the_highest_code_wins_and_each_kind_has_a_line() {
        let mut tasks = tasks();
        assert_eq!(tasks.started(0), 2);
        tasks.ended(0, end(0, 0));
        tasks.ended(1, end(3, 0));
        tasks.ended(1, end(9, 0));
        tasks.ended(3, end(0, 9));
        tasks.ended(2, end(0, 9));
        tasks.ended(99, end(200, 0));
        assert_eq!(
            tasks.report(),
            [
                (false, "n1: task 0: Completed".to_owned()),
                (true, "n1: task 1: Exited with exit code 3".to_owned()),
                (true, "n2: tasks 2-3: Killed".to_owned()),
            ]
        );
        assert!(tasks.report().is_empty());
        assert_eq!(tasks.exit_code(), 137);
        tasks.abort(5);
        tasks.abort(6);
        assert_eq!(tasks.exit_code(), 5);
        assert!(tasks.any_killed());
    }

    #[test]
    fn cores_and_memory_are_mentioned() {
        let mut tasks = tasks();
        tasks.out_of_memory(1);
        tasks.ended(
            0,
            End {
                status: ExitStatus {
                    code: 0,
                    signal: 11,
                },
                core: true,
            },
        );
        tasks.ended(2, end(0, 9));
        assert_eq!(
            tasks.report(),
            [
                (
                    true,
                    "n1: task 0: Segmentation fault (core dumped)".to_owned()
                ),
                (true, "n2: task 2: Out Of Memory".to_owned()),
            ]
        );
    }

    #[test]
    fn states_are_grouped() {
        let mut tasks = tasks();
        tasks.started(0);
        tasks.ended(1, end(1, 0));
        assert_eq!(
            tasks.states(),
            [
                "StepId=7.0 task 0: running",
                "StepId=7.0 task 1: exited abnormally",
                "StepId=7.0 tasks 2-3: unknown",
            ]
        );
    }
}
