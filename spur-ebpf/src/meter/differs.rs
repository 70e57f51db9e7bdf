//! In what the running kernel's events differ from those of others, read from its own description of types (BTF).

use super::abi::{BIO_SECOND, GROUP_DEAD, VICTIM_TASK};
use libbpf_rs::btf::types::{FuncProto, Ptr, Struct, Typedef};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, ReferencesType};

/// The kernel's types; `None` if it does not tell them.
pub(super) struct KernelTypes(Option<Btf<'static>>);

impl KernelTypes {
    pub(super) fn read() -> KernelTypes {
        KernelTypes(Btf::from_vmlinux().ok())
    }

    /// Whether there are any: without, no program can be fitted to this kernel.
    pub(super) fn is_known(&self) -> bool {
        self.0.is_some()
    }

    /// Kinds of the arguments of a tracepoint, or `None` if the kernel proper has no such event.
    pub(super) fn arguments(&self, event: &str) -> Option<Vec<BtfKind>> {
        let btf = self.0.as_ref()?;
        let typedef = btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{event}"))?;
        let pointer = Ptr::try_from(typedef.referenced_type()).ok()?;
        let function = FuncProto::try_from(pointer.referenced_type()).ok()?;
        // The first is the tracepoint's own.
        let arguments = function.iter().skip(1);
        arguments
            .map(|argument| {
                let ty = btf.type_by_id::<BtfType<'_>>(argument.ty)?;
                Some(ty.skip_mods_and_typedefs().kind())
            })
            .collect()
    }

    /// Whether the kernel keeps how long tasks wait for a CPU.
    pub(super) fn counts_waits(&self) -> bool {
        let btf = self.0.as_ref();
        let info = btf.and_then(|btf| btf.type_by_name::<Struct<'_>>("sched_info"));
        info.is_some_and(|info| {
            info.iter()
                .any(|member| member.name.is_some_and(|name| name == "run_delay"))
        })
    }

    /// Flags of the settings.
    pub(super) fn flags(&self) -> u32 {
        let count = |event| self.arguments(event).map_or(0, |kinds| kinds.len());
        let victim = self.arguments("mark_victim").unwrap_or_default();
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        flag(count("block_bio_queue") >= 2, BIO_SECOND)
            | flag(count("sched_process_exit") >= 2, GROUP_DEAD)
            | flag(victim.first() == Some(&BtfKind::Ptr), VICTIM_TASK)
    }

    /// Whether an event has arguments that the programs know.
    pub(super) fn is_known_form(&self, event: &str) -> bool {
        let Some(kinds) = self.arguments(event) else {
            return false;
        };
        let pointers = |from: usize, count: usize| {
            kinds.len() >= from + count
                && kinds[from..from + count]
                    .iter()
                    .all(|kind| *kind == BtfKind::Ptr)
        };
        match event {
            "sched_switch" => pointers(1, 2),
            "sched_process_fork" => pointers(0, 2),
            "mark_victim" => !kinds.is_empty(),
            _ => pointers(0, 1),
        }
    }
}
