//! Numbers, strings, identifiers, resources: what everything else is made of.

use super::{BadMessage, Wire, required};
use crate::wire;
use spur_core::agent::order::AllocatedNode;
use spur_core::denial::{
    Denial, DenialCount, DenialKey, DenialLabel, DenialReason, DenialRow, DeviceOp, JobRows,
};
use spur_core::id::{Generation, Gid, JobId, NodeId, NodeName, StepId, StepKind, Uid};
use spur_core::job::spec::{Owner, Payload};
use spur_core::job::state::ExitStatus;
use spur_core::job::step::StepShare;
use spur_core::node::{FenceState, GpuNote, StuckJob};
use spur_core::resources::{
    DeviceFile, Gpu, GpuCount, GpuLink, GpuVendor, IdSet, Inventory, MemoryRequest, NodeShare,
    PartOf,
};
use spur_core::time::{Millis, TimeLimit};
use std::sync::Arc;

/// Types that are the same on the wire.
macro_rules! same {
    ($($type:ty),*) => {$(
        impl Wire for $type {
            type Pb = Self;
            fn to_pb(&self) -> Self {
                self.clone()
            }
            fn from_pb(pb: Self) -> Result<Self, BadMessage> {
                Ok(pb)
            }
        }
    )*};
}
same!(u32, u64, i32, bool, String, Vec<u8>);

/// Newtypes over a number.
macro_rules! number {
    ($($type:ident: $pb:ty),*) => {$(
        impl Wire for $type {
            type Pb = $pb;
            fn to_pb(&self) -> $pb {
                self.0
            }
            fn from_pb(pb: $pb) -> Result<Self, BadMessage> {
                Ok(Self(pb))
            }
        }
    )*};
}
number!(JobId: u32, NodeId: u32, Generation: u64, Uid: u32, Gid: u32, Millis: u64);

/// Pointers are transparent.
macro_rules! pointer {
    ($($pointer:ident),*) => {$(
        impl<T: Wire> Wire for $pointer<T> {
            type Pb = T::Pb;
            fn to_pb(&self) -> T::Pb {
                self.as_ref().to_pb()
            }
            fn from_pb(pb: T::Pb) -> Result<Self, BadMessage> {
                T::from_pb(pb).map($pointer::new)
            }
        }
    )*};
}
pointer!(Box, Arc);

impl Wire for u8 {
    type Pb = u32;
    fn to_pb(&self) -> u32 {
        u32::from(*self)
    }
    fn from_pb(pb: u32) -> Result<Self, BadMessage> {
        Self::try_from(pb).map_err(|_| BadMessage::new(format!("{pb} is above 255")))
    }
}

impl Wire for u16 {
    type Pb = u32;
    fn to_pb(&self) -> u32 {
        u32::from(*self)
    }
    fn from_pb(pb: u32) -> Result<Self, BadMessage> {
        Self::try_from(pb).map_err(|_| BadMessage::new(format!("{pb} is above 65535")))
    }
}

impl Wire for NodeName {
    type Pb = String;
    fn to_pb(&self) -> String {
        self.as_str().to_owned()
    }
    fn from_pb(pb: String) -> Result<Self, BadMessage> {
        Self::new(pb).map_err(|e| BadMessage::new(e.to_string()))
    }
}

record!(GpuNote = GpuNote { req gpu, req why });
record!(StuckJob = StuckJob { req job, req what });
impl Wire for IdSet {
    type Pb = wire::IdSet;
    fn to_pb(&self) -> wire::IdSet {
        wire::IdSet {
            ids: self.iter().collect(),
        }
    }
    fn from_pb(pb: wire::IdSet) -> Result<Self, BadMessage> {
        match pb.ids.iter().find(|id| **id > Self::MAX) {
            Some(id) => Err(BadMessage::new(format!("id {id} is above {}", Self::MAX)).at("ids")),
            None => Ok(pb.ids.into_iter().collect()),
        }
    }
}

impl Wire for StepKind {
    type Pb = wire::StepKind;
    fn to_pb(&self) -> wire::StepKind {
        use wire::step_kind::Kind;
        let kind = match self {
            Self::Batch => Kind::Batch(wire::Unit {}),
            Self::Numbered(number) => Kind::Numbered(*number),
        };
        wire::StepKind { kind: Some(kind) }
    }
    fn from_pb(pb: wire::StepKind) -> Result<Self, BadMessage> {
        use wire::step_kind::Kind;
        match pb.kind {
            Some(Kind::Batch(wire::Unit {})) => Ok(Self::Batch),
            Some(Kind::Numbered(number)) => Ok(Self::Numbered(number)),
            None => Err(BadMessage::new("no known kind of step")),
        }
    }
}

impl Wire for TimeLimit {
    type Pb = wire::TimeLimit;
    fn to_pb(&self) -> wire::TimeLimit {
        use wire::time_limit::Kind;
        let kind = match self {
            Self::Secs(secs) => Kind::Secs(*secs),
            Self::Unlimited => Kind::Unlimited(wire::Unit {}),
        };
        wire::TimeLimit { kind: Some(kind) }
    }
    fn from_pb(pb: wire::TimeLimit) -> Result<Self, BadMessage> {
        use wire::time_limit::Kind;
        match pb.kind {
            Some(Kind::Secs(0)) => Err(BadMessage::new("a limit is at least 1 second").at("secs")),
            Some(Kind::Secs(secs)) => Ok(Self::Secs(secs)),
            Some(Kind::Unlimited(wire::Unit {})) => Ok(Self::Unlimited),
            None => Err(BadMessage::new("no known kind of limit")),
        }
    }
}

impl Wire for MemoryRequest {
    type Pb = wire::MemoryRequest;
    fn to_pb(&self) -> wire::MemoryRequest {
        use wire::memory_request::Kind;
        let kind = match self {
            Self::Default => Kind::Default(wire::Unit {}),
            Self::PerNode(mib) => Kind::PerNode(*mib),
            Self::PerCpu(mib) => Kind::PerCpu(*mib),
            Self::PerGpu(mib) => Kind::PerGpu(*mib),
        };
        wire::MemoryRequest { kind: Some(kind) }
    }
    fn from_pb(pb: wire::MemoryRequest) -> Result<Self, BadMessage> {
        use wire::memory_request::Kind;
        match pb.kind {
            Some(Kind::Default(wire::Unit {})) => Ok(Self::Default),
            Some(Kind::PerNode(mib)) => Ok(Self::PerNode(mib)),
            Some(Kind::PerCpu(mib)) => Ok(Self::PerCpu(mib)),
            Some(Kind::PerGpu(mib)) => Ok(Self::PerGpu(mib)),
            None => Err(BadMessage::new("no known kind of memory request")),
        }
    }
}

impl Wire for Vec<NodeName> {
    type Pb = wire::NodeNames;
    fn to_pb(&self) -> wire::NodeNames {
        wire::NodeNames {
            names: self.iter().map(Wire::to_pb).collect(),
        }
    }
    fn from_pb(pb: wire::NodeNames) -> Result<Self, BadMessage> {
        super::repeated(pb.names, "names")
    }
}

/// Pairs, as messages of two named fields.
macro_rules! pair {
    ($(($first_type:ty, $second_type:ty) = $pb:ident { $first:ident, $second:ident };)*) => {$(
        impl Wire for ($first_type, $second_type) {
            type Pb = wire::$pb;
            fn to_pb(&self) -> wire::$pb {
                wire::$pb { $first: Some(self.0.to_pb()), $second: Some(self.1.to_pb()) }
            }
            fn from_pb(pb: wire::$pb) -> Result<Self, BadMessage> {
                let wire::$pb { $first, $second } = pb;
                Ok((required($first, stringify!($first))?, required($second, stringify!($second))?))
            }
        }
    )*};
}
pair! {
    (u32, GpuLink) = LinkTo { gpu, kind };
    (u32, u64) = Limit { resource, soft };
    (NodeName, u32) = NodeTasks { name, tasks };
    (JobId, Generation) = JobGeneration { job, generation };
    (JobId, DenialCount) = JobDenials { job, count };
    (Uid, Millis) = ReasonBy { uid, at };
}

choice!(
    GpuVendor = GpuVendor {
        Nvidia,
        Amd,
        Drm,
        Simulated
    }
);
choice!(GpuLink = GpuLink { NvLink, Xgmi, Pcie });
choice!(
    FenceState = FenceState {
        Unfenced,
        Fenced,
        Guarded
    }
);
choice!(
    DeviceOp = DeviceOp {
        Read,
        Write,
        ReadWrite,
        Mknod,
        Probe,
        Receive,
        Ioctl,
        Mmap,
        Sysfs,
        Ptrace,
        Bpf,
        Sqpoll,
        Signal,
        Unpin,
        Cgroup,
        Other
    }
);
choice!(
    DenialReason = DenialReason {
        Unknown,
        NotGranted,
        NeverGranted,
        UnknownMinor,
        NoPolicy,
        Foreign,
        Forbidden
    }
);
choice!(DenialLabel = DenialLabel { KfdProbe });

record!(StepId = StepId { req job, req step });
record!(DeviceFile = DeviceFile { req path, req major, req minor });
record!(PartOf = PartOf { req uuid, req profile });
record!(Gpu = Gpu {
    req index, req vendor, req model, req uuid, req pci, opt numa, req memory_mib, rep files, rep links, opt rail,
    opt parent,
});
record!(Inventory = Inventory {
    req cpus, req sockets, req cores_per_socket, req threads_per_core, req memory_mib, rep gpus, req simulated,
    rep cpus_by_numa, rep features,
});
record!(NodeShare = NodeShare { req node, req cpus, req memory_mib, req gpus, req tasks });
record!(GpuCount = GpuCount { req model, req count });
record!(ExitStatus = ExitStatus { req code, req signal });
record!(DenialCount = DenialCount { req total, req suppressed });
record!(Denial = Denial {
    req at, req node, req job, req pid, req uid, req command, req major, req minor, req device, req op, def seq,
    def reason, opt target_pid, def object, def noted, opt label,
});
record!(DenialKey = DenialKey { req major, req minor, req device, req op, req reason, req noted, opt label });
record!(DenialRow = DenialRow { req key, req total });
record!(JobRows = JobRows { req job, req generation, req since, rep rows });
record!(Owner = Owner { req uid, req gid, rep groups, req user, req group, req home, req shell });
record!(Payload = Payload { req script, rep args, rep env, req umask, rep rlimits });
record!(AllocatedNode = AllocatedNode { req name, req share });
record!(StepShare = StepShare { req share, rep task_ids });
