/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Layouts that the fence program shares with user space (src/abi.rs mirrors them; tests/layout.rs compares both through BTF).
 * Rules: fixed-width members, no implicit padding, every reserved member is zero. A change of meaning or of layout raises SPUR_FENCE_ABI.
 */
#ifndef SPUR_FENCE_ABI_H
#define SPUR_FENCE_ABI_H

/* A test builds an object with another number. */
#ifndef SPUR_FENCE_ABI
#define SPUR_FENCE_ABI 2
#endif

typedef unsigned char spur_u8;
typedef unsigned short spur_u16;
typedef unsigned int spur_u32;
typedef unsigned long long spur_u64;

/* One word for every major number that a dev_t can hold (12 bits), so that no number is outside the table. */
#define SPUR_MAJORS 4096
/* Majors whose low minors have a direct place each; entries of all others are in the map `devices`. */
#define SPUR_SLOTS 32
#define SPUR_SLOT_MINORS 256
/* Entries of the map `devices`. */
#define SPUR_DEVICES_MAX 8192
/* Grant bits of one policy. */
#define SPUR_GRANT_BITS 512
#define SPUR_GRANT_WORDS (SPUR_GRANT_BITS / 64)
/* Fenced cgroups, and open files whose job is known, of one node. */
#define SPUR_GUARDED_MAX 16384
#define SPUR_FILES_MAX 65536
#define SPUR_FILE_DMA_BUF (1ull << 32)
/* Uses of devices whose rate of events is remembered. */
#define SPUR_USES_MAX 4096
#define SPUR_AUDIT_BYTES (256 * 1024)
#define SPUR_COMM_LEN 16
#define SPUR_OBJECT_LEN 24

/* Word of a major: its class in the lowest 8 bits, 1 + its slot (0: none) in the next 8. */
#define SPUR_CLASS_MASK 0xffu
#define SPUR_SLOT_SHIFT 8
#define SPUR_CLASS_OPEN 0u   /* file modes alone decide */
#define SPUR_CLASS_WHOLE 1u  /* every minor is fenced, also one that is not listed; so is any class not named here */
#define SPUR_CLASS_LISTED 2u /* only listed minors are fenced */

/* Entry of a device: 1 + its grant bit; a bit beyond the last is never granted. */
#define SPUR_ENTRY_NONE 0u /* not listed */
#define SPUR_ENTRY_NEVER 0xffffffffu

/* Flags of a policy. */
#define SPUR_POLICY_QUIET 1u /* count refusals, send no event: a narrower fence below reports them */

/* Rate limit of events where a policy says 0. */
#define SPUR_AUDIT_BURST_DEFAULT 64u
#define SPUR_AUDIT_PER_SECOND_DEFAULT 10u

/* Bits of an access, as in <linux/bpf.h> (BPF_DEVCG_ACC_*); 0 is access(F_OK). */
#define SPUR_ACCESS_MKNOD 1u
#define SPUR_ACCESS_READ 2u
#define SPUR_ACCESS_WRITE 4u
/* Type of a device, as in <linux/bpf.h> (BPF_DEVCG_DEV_*). */
#define SPUR_DEVICE_BLOCK 1u
#define SPUR_DEVICE_CHAR 2u

/* Verdicts: an allow is below SPUR_DENY_FIRST. */
#define SPUR_ALLOW_OPEN 0u      /* not a fenced device */
#define SPUR_ALLOW_GRANTED 1u   /* fenced and granted */
#define SPUR_DENY_FIRST 16u
#define SPUR_DENY_MKNOD 16u     /* a fenced number is never made */
#define SPUR_DENY_UNLISTED 17u  /* unknown minor of a fenced major */
#define SPUR_DENY_NEVER 18u     /* listed as never granted */
#define SPUR_DENY_NO_POLICY 19u /* no policy, or one of another ABI */
#define SPUR_DENY_NOT_GRANTED 20u
#define SPUR_DENY_FOREIGN 21u   /* belongs to another job, or to none */
#define SPUR_DENY_FORBIDDEN 22u /* no job may do that */

/* What was tried; for SPUR_OP_DEVICE and SPUR_OP_OPEN the access bits say how. */
#define SPUR_OP_DEVICE 0u /* seen by the fence */
#define SPUR_OP_OPEN 1u   /* from here on seen by the guard */
#define SPUR_OP_RECEIVE 2u
#define SPUR_OP_IOCTL 3u
#define SPUR_OP_MMAP 4u
#define SPUR_OP_SYSFS 5u
#define SPUR_OP_PTRACE 6u
#define SPUR_OP_BPF 7u
#define SPUR_OP_SQPOLL 8u
#define SPUR_OP_SIGNAL 9u
#define SPUR_OP_UNPIN 10u
#define SPUR_OP_CGROUP 11u

/* Flags of an event. */
#define SPUR_EVENT_NOTED 1u /* seen and let through */

struct spur_fence_meta {
	spur_u32 abi;
	spur_u32 reserved;
	spur_u64 object_hash; /* which build of the program is pinned */
};

struct spur_fence_device_key {
	spur_u32 major;
	spur_u32 minor;
};

/* Read by the program without a lookup; user space maps it and writes single words. */
struct spur_fence_table {
	spur_u32 majors[SPUR_MAJORS];
	spur_u32 entries[SPUR_SLOTS * SPUR_SLOT_MINORS];
};

/* Written by user space only, except `audit_next_ns`. All zero means: deny every fenced device. */
struct spur_fence_policy {
	spur_u32 abi;
	spur_u32 flags;
	spur_u64 job;
	spur_u64 generation;
	spur_u64 cgroup;
	spur_u32 step;
	spur_u32 audit_burst;
	spur_u32 audit_per_second;
	spur_u32 reserved;
	spur_u64 grants[SPUR_GRANT_WORDS];
	spur_u64 audit_next_ns; /* written by the program: when the rate limit's next event was due */
};

/* One per CPU and fence, written by the program only. denied = emitted + suppressed + lost. */
struct spur_fence_counters {
	spur_u64 denied;
	spur_u64 emitted;
	spur_u64 suppressed; /* by the rate limit, or quiet */
	spur_u64 lost;       /* the audit ring was full */
	spur_u64 noted;      /* seen and let through; no part of `denied` */
};

/* Constants of the guard's programs, and, in a map, what is pinned. */
struct spur_guard_settings {
	spur_u64 object_hash;
	spur_u32 job_level; /* of the jobs' cgroups; the steps' is one more */
	spur_u32 deny_signals;
};

/* Whose an open file is. */
struct spur_guard_file {
	spur_u64 job;  /* cgroup id */
	spur_u64 what; /* device number as the kernel has it, or SPUR_FILE_DMA_BUF */
};

struct spur_fence_event {
	spur_u64 time_ns; /* CLOCK_MONOTONIC */
	spur_u64 job;
	spur_u64 generation;
	spur_u64 cgroup; /* of the process; it may be below the fenced one */
	spur_u32 step;
	spur_u32 pid;  /* thread */
	spur_u32 tgid; /* process */
	spur_u32 uid;
	spur_u32 major;
	spur_u32 minor;
	spur_u16 access;
	spur_u16 type;
	spur_u32 verdict;
	spur_u32 operation;
	spur_u32 target; /* process that was the object, or 0 */
	spur_u32 flags;
	spur_u32 reserved;
	char comm[SPUR_COMM_LEN];
	char object[SPUR_OBJECT_LEN]; /* short name of what is no device, zero-filled */
};

#endif
