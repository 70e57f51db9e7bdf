/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Time on CPUs. What a task did while it ran is the difference of the kernel's own counters of it between its coming and its
 * leaving, so it adds up to what cpu.stat is made of. Per-CPU memory, no memory per task, no message.
 */
#ifndef SPUR_METER_SWITCH_H
#define SPUR_METER_SWITCH_H

#include "meter_slot.h"

struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, SPUR_METER_SEEN);
	MAP_TYPE(key, spur_u32);
	MAP_TYPE(value, struct spur_meter_seen);
} seen SEC(".maps");

SPUR_INLINE struct spur_meter_seen *seen_of(spur_u32 pid)
{
	spur_u32 index = pid & (SPUR_METER_SEEN - 1);

	return map_lookup(&seen, &index);
}

/*
 * Two of a task's counters also grow while it does not run: its wait, when it is moved from one queue to another, and its times,
 * which some kernels bring up to date only after the switch. A task that has not run since it was seen to leave begins from there.
 */
SPUR_INLINE void resume(struct spur_meter_running *now, spur_u64 time_ns)
{
	const struct spur_meter_seen *was = seen_of(now->pid);
	spur_u64 away;

	if (!was || was->pid != now->pid || was->exec_ns != now->exec_ns)
		return;
	away = time_ns - was->left_ns;
	if (now->wait_ns - was->wait_ns <= away)
		now->wait_ns = was->wait_ns;
	if (now->user_ns - was->user_ns <= away)
		now->user_ns = was->user_ns;
	if (now->system_ns - was->system_ns <= away)
		now->system_ns = was->system_ns;
}

SPUR_INLINE void read_counters(struct spur_meter_running *now, struct task_struct *task, int typed)
{
	now->exec_ns = GET(typed, task->se.sum_exec_runtime);
	now->wait_ns = GET_IF(typed, task->sched_info.run_delay);
	now->user_ns = GET(typed, task->utime);
	now->system_ns = GET(typed, task->stime);
	now->major_faults = GET(typed, task->maj_flt);
	now->minor_faults = GET(typed, task->min_flt);
}

SPUR_INLINE void remember(const struct spur_meter_running *now, spur_u64 time_ns)
{
	struct spur_meter_seen *was = seen_of(now->pid);

	if (!was)
		return;
	was->pid = now->pid;
	was->left_ns = time_ns;
	was->exec_ns = now->exec_ns;
	was->wait_ns = now->wait_ns;
	was->user_ns = now->user_ns;
	was->system_ns = now->system_ns;
}

/*
 * The slice is taken out of the CPU's record before it is counted: a reader that looks at the counts first and then at the records
 * may miss it for a moment, and never has it twice.
 */
SPUR_INLINE void leave(struct spur_meter_running *then, struct task_struct *task, spur_u64 time_ns, spur_u32 cpu, int typed)
{
	spur_u64 slice = then->slice;
	struct spur_meter_running now;
	struct spur_meter_slot *slot;
	struct spur_meter_place place;

	if (!slice)
		return;
	*(volatile spur_u64 *)&then->slice = 0;
	now.pid = GET(typed, task->pid);
	if (now.pid != then->pid) /* a switch was not seen: the programs were replaced */
		return;
	place.slot = (spur_u32)(slice & SPUR_METER_SLOT_MASK) - 1;
	place.generation = then->generation;
	read_counters(&now, task, typed);
	remember(&now, time_ns);
	slot = slot_at(&place, cpu);
	if (!slot)
		return;
	add(&slot->switches, 1);
	add(&slot->cpu_ns, now.exec_ns - then->exec_ns);
	add(&slot->runqueue_ns, now.wait_ns - then->wait_ns);
	add(&slot->user_ns, now.user_ns - then->user_ns);
	add(&slot->system_ns, now.system_ns - then->system_ns);
	add(&slot->major_faults, now.major_faults - then->major_faults);
	add(&slot->minor_faults, now.minor_faults - then->minor_faults);
}

SPUR_INLINE void enter(struct spur_meter_running *now, struct task_struct *task, spur_u64 time_ns, int typed)
{
	spur_u32 pid = GET(typed, task->pid);
	struct spur_meter_place place;

	if (!pid || !place_of(&place, task, typed))
		return;
	now->pid = pid;
	now->generation = place.generation;
	read_counters(now, task, typed);
	resume(now, time_ns);
	*(volatile spur_u64 *)&now->slice = (time_ns & ~SPUR_METER_SLOT_MASK) | (place.slot + 1);
}

SPUR_INLINE int switch_tasks(struct task_struct *prev, struct task_struct *next, int typed)
{
	spur_u32 cpu = this_cpu();
	struct spur_meter_running *record = map_lookup(&running, &cpu);
	spur_u64 time_ns;

	if (!record)
		return 0;
	time_ns = ktime_get_ns();
	leave(record, prev, time_ns, cpu, typed);
	enter(record, next, time_ns, typed);
	return 0;
}

#endif
