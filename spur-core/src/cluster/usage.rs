//! What nodes say of the use that is made of GPUs: verdicts on idle ones, and how busy each was lately. Both help to decide; neither
//! takes anything from anybody.

use super::{Cluster, Taken};
use crate::effect::Effects;
use crate::id::{JobId, NodeId};
use crate::job::state::JobState;
use crate::node::GpuRecent;
use crate::time::Millis;
use crate::usage::idle::Idle;

impl Cluster {
    /// A verdict counts only for a GPU that the job holds there now.
    pub(super) fn on_gpu_idle(
        &mut self,
        id: JobId,
        (node, gpu): (NodeId, u32),
        idle: Option<&Idle>,
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get_mut(&id).ok_or("no such job")?;
        let share = job.allocation.iter().find(|share| share.node == node);
        let holds = share.is_some_and(|share| share.gpus.contains(gpu));
        if job.state != JobState::Running || !holds {
            return Err("the job does not hold that GPU");
        }
        match idle {
            Some(idle) => {
                job.idle.entry(node).or_default().insert(gpu, idle.clone());
            }
            None => {
                let here = job.idle.get_mut(&node).ok_or("it was not idle")?;
                here.remove(&gpu).ok_or("it was not idle")?;
                if here.is_empty() {
                    job.idle.remove(&node);
                }
            }
        }
        fx.touched_jobs.insert(id);
        Ok(())
    }

    /// GPUs that the node does not have are left out; what is not named stays as it was.
    pub(super) fn on_utilization(
        &mut self,
        at: Millis,
        id: NodeId,
        gpus: &[(u32, u16)],
        fx: &mut Effects,
    ) -> Taken {
        let node = self.nodes.get_mut(&id).ok_or("no such node")?;
        let known = node.inventory.gpus.len();
        let told = gpus.iter().filter(|(gpu, _)| (*gpu as usize) < known);
        let mut any = false;
        for (gpu, permille) in told {
            let recent = GpuRecent {
                gpu: *gpu,
                permille: (*permille).min(1000),
                at,
            };
            let found = node
                .utilization
                .binary_search_by_key(gpu, |known| known.gpu);
            match found {
                Ok(place) => node.utilization[place] = recent,
                Err(place) => node.utilization.insert(place, recent),
            }
            any = true;
        }
        if !any {
            return Err("the node has none of these GPUs");
        }
        fx.touched_nodes.insert(id);
        Ok(())
    }
}
