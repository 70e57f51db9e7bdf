//! The meter's stream.

use super::{BadMessage, Wire};
use crate::wire;
use spur_core::usage::histogram::Histogram;
use spur_core::usage::idle::Idle;
use spur_core::usage::metric::{Metric, Quality, SeriesKey, Source, Subject};
use spur_core::usage::summary::{Busy, DeviceErrors, GpuUsage, JobUsage, Processes, StepUsage};
use spur_core::usage::words::{
    Batch, FromMeter, SeriesName, ToMeter, UsageEvent, UsageEventKind, UsageRecord,
};

choice!(
    Quality = Quality {
        Exact,
        Sampled,
        Estimated
    }
);
choice!(
    Source = Source {
        Bpf,
        Cgroup,
        DrmSched,
        Fdinfo,
        Nvml,
        Gpm,
        GpuMetrics,
        Sysfs,
        Dmem,
        Grants,
        Agent,
        Simulated,
        Other
    }
);

impl Wire for Subject {
    type Pb = wire::Subject;
    fn to_pb(&self) -> wire::Subject {
        use wire::subject::{JobGpu, Kind, Step};
        let kind = match self {
            Self::Node => Kind::Node(wire::Unit {}),
            Self::Gpu(gpu) => Kind::Gpu(*gpu),
            Self::Step(job, step) => Kind::Step(Step {
                job: Some(job.to_pb()),
                step: Some(step.to_pb()),
            }),
            Self::JobGpu(job, gpu) => Kind::JobGpu(JobGpu {
                job: Some(job.to_pb()),
                gpu: Some(*gpu),
            }),
        };
        wire::Subject { kind: Some(kind) }
    }
    fn from_pb(pb: wire::Subject) -> Result<Self, BadMessage> {
        use super::required;
        use wire::subject::{JobGpu, Kind, Step};
        match pb.kind {
            Some(Kind::Node(wire::Unit {})) => Ok(Self::Node),
            Some(Kind::Gpu(gpu)) => Ok(Self::Gpu(gpu)),
            Some(Kind::Step(Step { job, step })) => {
                Ok(Self::Step(required(job, "job")?, required(step, "step")?))
            }
            Some(Kind::JobGpu(JobGpu { job, gpu })) => {
                Ok(Self::JobGpu(required(job, "job")?, required(gpu, "gpu")?))
            }
            None => Err(BadMessage::new("no known kind of subject")),
        }
    }
}

impl Wire for Metric {
    type Pb = u32;
    fn to_pb(&self) -> u32 {
        u32::from(*self as u8)
    }
    fn from_pb(pb: u32) -> Result<Self, BadMessage> {
        let known = u8::try_from(pb).ok().and_then(Self::from_number);
        known.ok_or_else(|| BadMessage::new(format!("unknown metric {pb}")))
    }
}

impl Wire for Histogram {
    type Pb = wire::Histogram;
    fn to_pb(&self) -> wire::Histogram {
        wire::Histogram {
            millis: self.buckets().to_vec(),
        }
    }
    fn from_pb(pb: wire::Histogram) -> Result<Self, BadMessage> {
        Ok(Self::from_buckets(pb.millis))
    }
}

record!(SeriesKey = SeriesKey { req subject, req metric, req source, req quality });
record!(SeriesName = SeriesName { req number, req key });
record!(Batch = UsageBatch {
    req sequence, req late, req at, req uptime, req span, req keyframe, rep names, rep ended, req body,
});
record!(Processes = Processes {
    req cpu_us, opt user_us, opt system_us, opt runqueue_us, opt major_faults, opt read_bytes, opt write_bytes,
    opt processes, opt oom_kills, opt memory_peak, opt memory_mean,
});
record!(StepUsage = StepUsage {
    req job, req step, req generation, req node, req started, req ended, req used, req coverage,
});
record!(Busy = Busy { req us, req source, req quality });
record!(DeviceErrors = DeviceErrors { req code, req count });
record!(GpuUsage = GpuUsage {
    req index, req uuid, req model, req held_us, opt busy, req utilization, opt opened, opt first_busy_us,
    opt longest_idle_us, opt trailing_idle_us, opt memory_peak, opt memory_total, opt energy_mj, opt sm_active,
    opt throttle_thermal_us, opt throttle_power_us, rep errors, opt ecc_corrected, opt ecc_uncorrected,
});
record!(JobUsage = JobUsage {
    req job, req generation, req node, req started, req ended, req cpus, req memory_mib, req used, rep gpus, req coverage,
});
record!(Idle = Idle { req since, req millis, req held, opt opened, opt open_now, opt busy, opt memory });
record!(UsageEvent = UsageEvent { req at, opt job, opt gpu, req what });
variants!(UsageEventKind = UsageEventKind in usage_event_kind {
    unit Busy;
    rec DeviceError { req code, req text };
    rec DeviceStale { req stale, req why };
    rec Gap { req millis, req why };
    rec OomKill { req pid };
    one Idle;
});
variants!(UsageRecord = UsageRecord in usage_record {
    one Step;
    one Job;
    one Event;
});
variants!(FromMeter = MeterMessage in meter_message {
    rec Hello { req token, req node, req boot_id, req epoch };
    rec Record { req number, req spool, req record };
    one Batch;
});
variants!(ToMeter = MeterAnswer in meter_answer {
    rec Ack { req live, req late, req record, req credit };
    rec Watch { req interval, req time_to_live };
});
