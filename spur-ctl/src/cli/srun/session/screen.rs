//! srun's own terminal and that of the first task.

use super::{Node, Session};

impl Session<'_> {
    /// The node of the first task, which may have a terminal.
    pub(super) fn first_node(&self) -> Option<usize> {
        let nodes = self.grant.nodes.iter();
        let mut nodes = nodes.map(|node| node.task_ids.contains(&0));
        nodes.position(|has| has)
    }

    /// Makes srun's terminal that of the task, if that runs and has one.
    pub(super) fn on_terminal(&mut self) {
        let there = self
            .first_node()
            .is_some_and(|at| self.nodes[at] == Node::Running);
        if let Some(terminal) = self.terminal.as_mut().filter(|_| there) {
            terminal.make_raw();
            self.resized();
        }
    }

    /// srun's terminal may have another size.
    pub(super) fn resized(&self) {
        let link = self.first_node().and_then(|at| self.links.get(at));
        if let (Some(terminal), Some(link)) = (&self.terminal, link) {
            terminal.tell_size(link);
        }
    }
}
