//! What meters say that the planner is to know.

use super::Writer;
use super::ask::UsageWord;
use super::turn::Turn;
use spur_core::event::Event;

impl Writer {
    /// A node that is not known, and a verdict on what nobody holds any more, are no news: nothing is logged of them.
    pub(super) fn used(&mut self, turn: &mut Turn, word: UsageWord) {
        match word {
            UsageWord::Idle {
                node,
                job,
                gpu,
                idle,
                done,
            } => {
                if let Some(node) = self.cluster.node_ids.get(&node).copied() {
                    self.propose_quietly(
                        turn,
                        Event::GpuIdle {
                            node,
                            job,
                            gpu,
                            idle,
                        },
                    );
                }
                turn.verdicts.push(done);
            }
            UsageWord::Utilization { node, gpus } => {
                if let Some(node) = self.cluster.node_ids.get(&node).copied() {
                    self.propose_quietly(turn, Event::Utilization { node, gpus });
                }
            }
        }
    }
}
