//! The columns of `sacct` and `sstat`. Names, widths and sides are Slurm's; the last few are our own. What was not measured is blank,
//! and so are columns of things that do not exist here.

mod cells;

use super::sheet::Field;
use super::{Context, Row};
use cells::times::*;
pub use cells::times::{clocks, state_word};
use cells::used::*;
use cells::*;

/// `sacct`.
pub const DEFAULT: &str = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode";
/// `sacct -b`.
pub const BRIEF: &str = "JobID,State,ExitCode";
/// `sacct -l`.
pub const LONG: &str = "JobID,JobIDRaw,JobName,Partition,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,MaxRSSNode,\
    MaxRSSTask,AveRSS,MaxPages,MaxPagesNode,MaxPagesTask,AvePages,MinCPU,MinCPUNode,MinCPUTask,AveCPU,NTasks,AllocCPUS,Elapsed,\
    State,ExitCode,AveCPUFreq,ReqCPUFreqMin,ReqCPUFreqMax,ReqCPUFreqGov,ReqMem,ConsumedEnergy,MaxDiskRead,MaxDiskReadNode,\
    MaxDiskReadTask,AveDiskRead,MaxDiskWrite,MaxDiskWriteNode,MaxDiskWriteTask,AveDiskWrite,ReqTRES,AllocTRES,TRESUsageInAve,\
    TRESUsageInMax,TRESUsageInMaxNode,TRESUsageInMaxTask,TRESUsageInMin,TRESUsageInMinNode,TRESUsageInMinTask,TRESUsageInTot,\
    TRESUsageOutMax,TRESUsageOutMaxNode,TRESUsageOutMaxTask,TRESUsageOutAve,TRESUsageOutTot";
/// `sstat`.
pub const STEPS: &str = "JobID,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,MaxRSSNode,MaxRSSTask,AveRSS,MaxPages,\
    MaxPagesNode,MaxPagesTask,AvePages,MinCPU,MinCPUNode,MinCPUTask,AveCPU,NTasks,AveCPUFreq,ReqCPUFreqMin,ReqCPUFreqMax,\
    ReqCPUFreqGov,ConsumedEnergy,MaxDiskRead,MaxDiskReadNode,MaxDiskReadTask,AveDiskRead%12,MaxDiskWrite,MaxDiskWriteNode,\
    MaxDiskWriteTask,AveDiskWrite%12,TRESUsageInAve,TRESUsageInMax,TRESUsageInMaxNode,TRESUsageInMaxTask,TRESUsageInMin,\
    TRESUsageInMinNode,TRESUsageInMinTask,TRESUsageInTot,TRESUsageOutAve,TRESUsageOutMax,TRESUsageOutMaxNode,\
    TRESUsageOutMaxTask,TRESUsageOutMin,TRESUsageOutMinNode,TRESUsageOutMinTask,TRESUsageOutTot";

type Cell = fn(&Context, &Row) -> String;

const fn right(name: &'static str, width: usize, cell: Cell) -> Field {
    Field {
        name,
        width,
        left: false,
        cell,
        own: false,
    }
}

const fn left(name: &'static str, width: usize, cell: Cell) -> Field {
    Field {
        name,
        width,
        left: true,
        cell,
        own: false,
    }
}

/// A column that Slurm has not.
const fn own(name: &'static str, width: usize, cell: Cell) -> Field {
    Field {
        name,
        width,
        left: false,
        cell,
        own: true,
    }
}

/// The text of a column, by its name; empty if there is none.
pub fn text_of(name: &str, context: &Context, row: &Row) -> String {
    let field = FIELDS.iter().find(|field| field.name == name);
    field
        .map(|field| (field.cell)(context, row))
        .unwrap_or_default()
}

/// The columns of `sstat`, which has only what is measured of steps.
pub fn of_steps() -> impl Iterator<Item = &'static Field> {
    let measured = |name: &str| {
        let starts = [
            "Ave",
            "ConsumedEnergy",
            "MaxDisk",
            "MaxPages",
            "MaxRSS",
            "MaxVMSize",
        ];
        let more = ["MinCPU", "ReqCPUFreq", "TRESUsage"];
        let whole = ["JobID", "NodeList", "NTasks"];
        starts
            .iter()
            .chain(&more)
            .any(|start| name.starts_with(start))
            || whole.contains(&name)
    };
    FIELDS.iter().filter(move |field| measured(field.name))
}

/// Every column, in the order of Slurm's list; our own last.
pub static FIELDS: &[Field] = &[
    right("Account", 10, account),
    right("AdminComment", 19, admin_comment),
    right("AllocCPUS", 10, alloc_cpus),
    right("AllocNodes", 10, alloc_nodes),
    right("AllocTRES", 10, alloc_tres),
    right("AssocID", 7, association),
    right("AveCPU", 10, ave_cpu),
    right("AveCPUFreq", 10, ave_frequency),
    right("AveDiskRead", 14, ave_disk_read),
    right("AveDiskWrite", 14, ave_disk_write),
    right("AvePages", 10, ave_pages),
    right("AveRSS", 10, ave_rss),
    right("AveVMSize", 10, blank),
    right("BlockID", 16, blank),
    right("Cluster", 10, cluster),
    right("Comment", 14, comment),
    right("Constraints", 19, constraints),
    right("ConsumedEnergy", 14, energy),
    right("ConsumedEnergyRaw", 17, energy_raw),
    right("Container", 20, container),
    right("CPUTime", 10, cpu_time),
    right("CPUTimeRAW", 10, cpu_time_raw),
    right("DBIndex", 20, blank),
    right("DerivedExitCode", 15, derived_exit),
    right("Elapsed", 10, elapsed),
    right("ElapsedRaw", 10, elapsed_raw),
    right("Eligible", 19, eligible),
    right("End", 19, end),
    right("ExitCode", 8, exit_code),
    right("Extra", 16, extra),
    right("FailedNode", 16, blank),
    right("Flags", 20, flags),
    right("GID", 6, gid),
    right("Group", 9, group),
    left("JobID", 12, job_id),
    left("JobIDRaw", 12, job_id_raw),
    right("JobName", 10, job_name),
    right("Layout", 9, blank),
    right("Licenses", 16, licenses),
    right("MaxDiskRead", 12, max_disk_read),
    right("MaxDiskReadNode", 15, max_disk_read_node),
    right("MaxDiskReadTask", 15, blank),
    right("MaxDiskWrite", 12, max_disk_write),
    right("MaxDiskWriteNode", 16, max_disk_write_node),
    right("MaxDiskWriteTask", 16, blank),
    right("MaxPages", 8, max_pages),
    right("MaxPagesNode", 12, max_pages_node),
    right("MaxPagesTask", 14, blank),
    right("MaxRSS", 10, max_rss),
    right("MaxRSSNode", 10, max_rss_node),
    right("MaxRSSTask", 10, blank),
    right("MaxVMSize", 10, blank),
    right("MaxVMSizeNode", 14, blank),
    right("MaxVMSizeTask", 14, blank),
    right("McsLabel", 10, mcs_label),
    right("MinCPU", 10, min_cpu),
    right("MinCPUNode", 10, min_cpu_node),
    right("MinCPUTask", 10, blank),
    right("NCPUS", 10, alloc_cpus),
    right("NNodes", 8, node_count),
    right("NodeList", 15, node_list),
    right("NTasks", 8, tasks),
    right("Partition", 10, partition),
    right("Planned", 10, planned),
    right("PlannedCPU", 10, planned_cpu),
    right("PlannedCPURAW", 13, planned_cpu_raw),
    right("Priority", 10, priority),
    right("QOS", 10, qos),
    right("QOSRAW", 6, qos_raw),
    right("QOSREQ", 10, blank),
    right("Reason", 25, reason),
    right("ReqCPUFreq", 10, frequency),
    right("ReqCPUFreqGov", 13, frequency),
    right("ReqCPUFreqMax", 13, frequency),
    right("ReqCPUFreqMin", 13, frequency),
    right("ReqCPUS", 8, req_cpus),
    right("ReqMem", 10, req_mem),
    right("ReqNodes", 8, req_nodes),
    right("ReqTRES", 10, req_tres),
    right("Reservation", 20, reservation),
    right("ReservationId", 17, blank),
    right("Restarts", 8, restarts),
    right("SLUID", 15, blank),
    right("Start", 19, start),
    right("State", 10, state),
    right("StdErr", 20, std_err),
    right("StdIn", 20, std_in),
    right("StdOut", 20, std_out),
    right("Submit", 19, submit),
    right("SubmitLine", 20, submit_line),
    right("Suspended", 10, suspended),
    right("SystemComment", 14, blank),
    right("SystemCPU", 10, system_cpu),
    right("Timelimit", 10, time_limit),
    right("TimelimitRaw", 12, time_limit_raw),
    right("TotalCPU", 10, total_cpu),
    right("TRESUsageInAve", 14, tres_in_ave),
    right("TRESUsageInMax", 14, tres_in_max),
    right("TRESUsageInMaxNode", 18, tres_in_max_node),
    right("TRESUsageInMaxTask", 18, blank),
    right("TRESUsageInMin", 14, blank),
    right("TRESUsageInMinNode", 18, blank),
    right("TRESUsageInMinTask", 18, blank),
    right("TRESUsageInTot", 14, tres_in),
    right("TRESUsageOutAve", 15, tres_out_ave),
    right("TRESUsageOutMax", 15, tres_out_max),
    right("TRESUsageOutMaxNode", 19, tres_out_max_node),
    right("TRESUsageOutMaxTask", 19, blank),
    right("TRESUsageOutMin", 15, blank),
    right("TRESUsageOutMinNode", 19, blank),
    right("TRESUsageOutMinTask", 19, blank),
    right("TRESUsageOutTot", 15, tres_out),
    right("UID", 6, uid),
    right("User", 9, user),
    right("UserCPU", 10, user_cpu),
    right("WCKey", 10, wckey),
    right("WCKeyID", 8, wckey_id),
    right("WorkDir", 15, work_dir),
    own("GpuEnergy", 10, energy),
    own("GpuHours", 10, gpu_hours),
    own("GpuIdle", 8, gpu_idle),
    own("GpuTimeRAW", 10, gpu_time_raw),
    own("GpuMem", 10, gpu_mem),
    own("GpuUtil", 8, gpu_util),
    own("GpuUtilP50", 10, gpu_p50),
    own("GpuUtilP95", 10, gpu_p95),
];
