//! The agent's stream.

use super::{BadMessage, Wire};
use spur_core::agent::order::{
    BatchOrder, FromAgent, HetOrder, JobOrder, Report, StepOrder, TicketKey, ToAgent,
};
use spur_core::agent::programs::{HealthCheck, NodePrograms};
use spur_core::event::NodeHello;
use spur_core::job::array::ArrayTask;

record!(NodeHello = NodeHello {
    req name, req inventory, req boot_id, req boot_time, req agent_start, req fence, req fence_note, req version, req os,
    req hostname, req address, rep jobs, opt fence_suffices, opt gpus_sick,
    rep gpu_notes, opt keeps_gpus, rep stuck,
});
record!(JobOrder = JobOrder {
    req job, req generation, req cluster, req owner, req name, req account, req partition, req qos, req index,
    req tasks, req cpus_per_task, req cpus_per_task_set, req tasks_set, req tasks_per_node, opt mem_per_cpu,
    opt mem_per_node, req work_dir, req submit_host, req started, req time_limit, req restarts, opt array,
    opt het, def node_timeout, def licenses,
} and nodes or roll);
record!(HetOrder = HetOrder { req leader, rep variables });
record!(HealthCheck = HealthCheck { req program, req interval, rep states });
record!(NodePrograms = NodePrograms {
    rep prolog, rep epilog, def prolog_timeout, def epilog_timeout, opt health,
});
record!(ArrayTask = ArrayTask { req job, req task, req count, req min, req max, req step });
record!(BatchOrder = BatchOrder { req payload, req stdin, req stdout, req stderr, req append });
record!(StepOrder = StepOrder {
    req job, req step, req generation, req index, req share, rep task_ids, req tasks, req cpus_per_task,
    opt batch,
} and nodes or roll);
variants!(ToAgent = ControllerMessage in controller_message {
    rec Welcome { req node, req generation, rep jobs, rep steps, opt programs, opt ticket_key };
    rec Revoke { req job, req generation };
    rec Signal { req job, opt step, req signal, def group };
    rec Ack { req report };
    rec Freeze { req job, req frozen };
    one Assign;
    one Launch;
});
variants!(Report = AgentReport in agent_report {
    rec StepEnded { req job, req step, req generation, req exit, req oom };
    rec LaunchFailed { req job, req generation, req why, req node_fault };
    rec Cleaned { req job, req generation };
    rec ProgramFailed { req job, req generation, req epilog, req why };
});
variants!(FromAgent = AgentMessage in agent_message {
    rec Hello { req token, req hello };
    rec Report { req number, req report };
    rec Heartbeat { req load_x100, req free_mib };
    rec Denials { rep counts, rep events, rep rows };
    rec Fence { req state, req note, opt suffices, opt gpus_sick, rep gpu_notes, rep stuck };
});

impl Wire for TicketKey {
    type Pb = Vec<u8>;
    fn to_pb(&self) -> Vec<u8> {
        self.0.to_vec()
    }
    fn from_pb(pb: Vec<u8>) -> Result<Self, BadMessage> {
        let bytes = pb.try_into();
        bytes
            .map(Self)
            .map_err(|pb: Vec<u8>| BadMessage::new(format!("{} bytes, not 32", pb.len())))
    }
}
