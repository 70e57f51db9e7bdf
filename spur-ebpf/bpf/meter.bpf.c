/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The meter: counts per job and step what the kernel does for them, at every event, O(1) each. Every program exists twice with one
 * body: `_typed` (tp_btf) where the kernel knows the types of a tracepoint's arguments, `_raw` (raw_tp) elsewhere. The loader names
 * the tracepoint.
 */
#include "meter_block.h"
#include "meter_hold.h"
#include "meter_process.h"
#include "meter_switch.h"

char LICENSE[] SEC("license") = "GPL";

/* sched_switch: preempt, prev, next, ... */
SEC("tp_btf")
int switch_typed(spur_u64 *ctx)
{
	return switch_tasks((struct task_struct *)ctx[1], (struct task_struct *)ctx[2], 1);
}

SEC("raw_tp")
int switch_raw(spur_u64 *ctx)
{
	return switch_tasks((struct task_struct *)ctx[1], (struct task_struct *)ctx[2], 0);
}

/* sched_process_fork: parent, child */
SEC("tp_btf")
int fork_typed(spur_u64 *ctx)
{
	return HOLDING_CPU(start_task((struct task_struct *)ctx[1], 1));
}

SEC("raw_tp")
int fork_raw(spur_u64 *ctx)
{
	return HOLDING_CPU(start_task((struct task_struct *)ctx[1], 0));
}

/* sched_process_exit: task, since Linux 6.16 whether its process ends */
SPUR_INLINE int any_exit(spur_u64 *ctx, int typed)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	int ends;

	if (settings.flags & SPUR_METER_GROUP_DEAD)
		ends = (ctx[1] & 1) != 0;
	else
		ends = is_last(task, typed);
	return end_thread(task, ends, typed);
}

SEC("tp_btf")
int exit_typed(spur_u64 *ctx)
{
	return HOLDING_CPU(any_exit(ctx, 1));
}

SEC("raw_tp")
int exit_raw(spur_u64 *ctx)
{
	return HOLDING_CPU(any_exit(ctx, 0));
}

/* mark_victim: a thread's number, or the thread since Linux 6.9 */
SPUR_INLINE int any_victim(spur_u64 *ctx, int typed)
{
	if (settings.flags & SPUR_METER_VICTIM_TASK)
		return kill_victim((struct task_struct *)ctx[0], typed);
	return note_victim((spur_u32)ctx[0]);
}

SEC("tp_btf")
int victim_typed(spur_u64 *ctx)
{
	return HOLDING_CPU(any_victim(ctx, 1));
}

SEC("raw_tp")
int victim_raw(spur_u64 *ctx)
{
	return HOLDING_CPU(any_victim(ctx, 0));
}

SEC("tp_btf")
int bio_typed(spur_u64 *ctx)
{
	return HOLDING_CPU(count_bio(bio_of(ctx), 0, 1));
}

SEC("raw_tp")
int bio_raw(spur_u64 *ctx)
{
	return HOLDING_CPU(count_bio(bio_of(ctx), 0, 0));
}

SEC("tp_btf")
int split_typed(spur_u64 *ctx)
{
	return HOLDING_CPU(count_bio(bio_of(ctx), 1, 1));
}

SEC("raw_tp")
int split_raw(spur_u64 *ctx)
{
	return HOLDING_CPU(count_bio(bio_of(ctx), 1, 0));
}
