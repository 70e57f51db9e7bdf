/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Layouts that the meter's programs share with user space (src/meter/abi.rs mirrors them; tests/layout.rs compares both through BTF).
 * The rules of fence_abi.h hold. Times are nanoseconds of CLOCK_MONOTONIC, or lengths in nanoseconds.
 */
#ifndef SPUR_METER_ABI_H
#define SPUR_METER_ABI_H

#include "fence_abi.h"

/* A test builds an object with another number. */
#ifndef SPUR_METER_ABI
#define SPUR_METER_ABI 1
#endif

/* Metered cgroups of one node. */
#define SPUR_METER_SLOTS 4096
/* Tasks whose counters are remembered while they do not run, by the low bits of their pid. */
#define SPUR_METER_SEEN 65536
/* Jobs of GPU schedulers that are queued or run, the schedulers, and who used which of them. */
#define SPUR_METER_GPU_JOBS 16384
#define SPUR_METER_GPU_RINGS 4096
#define SPUR_METER_GPU_WORK 16384
#define SPUR_METER_DEVICE_LEN 32
#define SPUR_METER_RING_LEN 16
/* Processes that are ending, and processes that the kernel chose for want of memory. */
#define SPUR_METER_ENDING 4096
#define SPUR_METER_VICTIMS 256

/* A slice: when it began, without its lowest bits, which hold 1 + the slot. */
#define SPUR_METER_SLOT_MASK 0x1fffull

/* spur_meter_settings.flags: in what this kernel's events differ. */
#define SPUR_METER_BIO_SECOND 1u   /* block_bio_queue and block_split: a queue comes before the bio (Linux 5.10) */
#define SPUR_METER_GROUP_DEAD 2u   /* sched_process_exit says whether the whole process ends */
#define SPUR_METER_VICTIM_TASK 4u  /* mark_victim has the task, not its number */

/* Which meter is pinned, and for what its maps are made. */
struct spur_meter_meta {
	spur_u32 abi;
	spur_u32 job_level;
	spur_u64 object_hash;
	spur_u32 cpus;
	spur_u32 shards;
};

/* What the loader tells the programs. */
struct spur_meter_settings {
	spur_u32 job_level;
	spur_u32 shards; /* a power of two */
	spur_u32 flags;
	spur_u32 reserved;
};

/* Where a cgroup's counts go. */
struct spur_meter_place {
	spur_u32 slot;
	spur_u32 generation;
};

/* One of the shards of a slot: CPUs share one. All are the same in the first three members. */
struct spur_meter_slot {
	spur_u64 cgroup; /* 0: free */
	spur_u32 generation;
	spur_u32 guessed_ios; /* of reads and writes, those whose owner the block layer did not know */
	spur_u64 cpu_ns;
	spur_u64 runqueue_ns;
	spur_u64 switches;
	spur_u64 user_ns; /* as the tick saw it */
	spur_u64 system_ns;
	spur_u64 major_faults;
	spur_u64 minor_faults;
	spur_u64 starts;
	spur_u64 ends;
	spur_u64 oom_kills;
	spur_u64 read_bytes;
	spur_u64 write_bytes;
	spur_u64 reads;
	spur_u64 writes;
};

/* The kernel's own counters of a task. */
struct spur_meter_counters {
	spur_u64 exec_ns;
	spur_u64 wait_ns;
	spur_u64 user_ns;
	spur_u64 system_ns;
	spur_u64 major_faults;
	spur_u64 minor_faults;
};

/* What runs on a CPU, and, if it is metered, its counters when it came. */
struct spur_meter_running {
	spur_u64 slice; /* 0: it is not metered */
	spur_u32 generation;
	spur_u32 pid;
	struct spur_meter_counters counters;
};

/* A metered task when it was last seen: as it left a CPU, or began. */
struct spur_meter_seen {
	spur_u32 pid;
	spur_u32 reserved;
	struct spur_meter_place place;
	spur_u64 time_ns;
	struct spur_meter_counters counters;
};

/* A process of several threads that ends. */
struct spur_meter_ending {
	spur_u64 signal;
	spur_u64 started_ns;
};

/* A job of a GPU scheduler, found by the address of its fence. */
struct spur_meter_gpu_job {
	struct spur_meter_place place; /* generation 0: of nobody that is metered */
	spur_u64 ring;
	spur_u64 queued_ns;
	spur_u64 run_ns; /* 0: still queued */
};

/* A GPU scheduler, found by its address. */
struct spur_meter_gpu_ring {
	spur_u64 done_ns;     /* when its last job was done */
	spur_u64 done_run_ns; /* when that was handed to the GPU */
	spur_u64 bus_device;  /* address, to notice that another scheduler lies here */
	char device[SPUR_METER_DEVICE_LEN];
	char name[SPUR_METER_RING_LEN];
};

struct spur_meter_gpu_key {
	struct spur_meter_place place;
	char device[SPUR_METER_DEVICE_LEN];
	char ring[SPUR_METER_RING_LEN];
};

struct spur_meter_gpu_work {
	spur_u64 busy_ns;
	spur_u64 queue_ns;
	spur_u64 jobs;
};

/* A process that has a device open. */
struct spur_meter_holder {
	spur_u64 cgroup;
	spur_u32 pid;
	spur_u32 device; /* as the kernel has it: major << 20 | minor */
};

/* Of all GPU schedulers together. */
struct spur_meter_gpu_totals {
	spur_u64 events;    /* as long as it stays, nothing has changed */
	spur_u64 lost_jobs; /* whose beginning was not seen, or was forgotten */
	spur_u64 lost_rows; /* jobs for which there was no room */
};

#endif
