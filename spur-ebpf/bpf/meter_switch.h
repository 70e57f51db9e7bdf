/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Time on CPUs. What a task did while it ran is the difference of the kernel's own counters of it between its coming and its
 * leaving, so it adds up to what cpu.stat is made of. Per-CPU memory, a fixed table of tasks, no message.
 */
#ifndef SPUR_METER_SWITCH_H
#define SPUR_METER_SWITCH_H

#include "meter_seen.h"

SPUR_INLINE void charge(const struct spur_meter_place *place, const struct spur_meter_counters *from, const struct spur_meter_counters *to,
			spur_u32 cpu)
{
	struct spur_meter_slot *slot = slot_at(place, cpu);

	if (!slot)
		return;
	add(&slot->switches, 1);
	add(&slot->cpu_ns, to->exec_ns - from->exec_ns);
	add(&slot->runqueue_ns, to->wait_ns - from->wait_ns);
	add(&slot->user_ns, to->user_ns - from->user_ns);
	add(&slot->system_ns, to->system_ns - from->system_ns);
	add(&slot->major_faults, to->major_faults - from->major_faults);
	add(&slot->minor_faults, to->minor_faults - from->minor_faults);
}

/*
 * The task leaves a CPU to which it was not seen to come: it is charged for what it did since it was last seen anywhere. The time, if
 * it was looked at.
 */
SPUR_INLINE spur_u64 leave_unseen(struct task_struct *task, spur_u32 pid, spur_u32 cpu, int typed)
{
	struct spur_meter_counters from, now;
	struct spur_meter_place place;
	spur_u64 time_ns;

	if (!pid || !place_of(&place, task, typed))
		return 0;
	time_ns = ktime_get_ns();
	read_counters(&now, task, typed);
	from = now;
	resume(&from, pid, &place, time_ns);
	remember(&now, pid, &place, time_ns);
	charge(&place, &from, &now, cpu);
	return time_ns;
}

/*
 * The slice is taken out of the CPU's record before it is counted: a reader that looks at the counts first and then at the records
 * may miss it for a moment, and never has it twice. The time, if it was looked at.
 */
SPUR_INLINE spur_u64 leave(struct spur_meter_running *then, struct task_struct *task, spur_u32 cpu, int typed)
{
	spur_u64 slice = then->slice;
	spur_u32 pid = GET(typed, task->pid);
	struct spur_meter_counters now;
	struct spur_meter_place place;
	spur_u64 time_ns;

	if (slice)
		*(volatile spur_u64 *)&then->slice = 0;
	if (pid != then->pid)
		return leave_unseen(task, pid, cpu, typed);
	if (!slice)
		return 0;
	time_ns = ktime_get_ns();
	place.slot = (spur_u32)(slice & SPUR_METER_SLOT_MASK) - 1;
	place.generation = then->generation;
	read_counters(&now, task, typed);
	remember(&now, pid, &place, time_ns);
	charge(&place, &then->counters, &now, cpu);
	return time_ns;
}

/* `time_ns`: 0 if nobody has looked at the time. */
SPUR_INLINE void enter(struct spur_meter_running *now, struct task_struct *task, spur_u64 time_ns, int typed)
{
	spur_u32 pid = GET(typed, task->pid);
	struct spur_meter_place place;

	now->pid = pid;
	if (!pid || !place_of(&place, task, typed))
		return;
	if (!time_ns)
		time_ns = ktime_get_ns();
	now->generation = place.generation;
	read_counters(&now->counters, task, typed);
	resume(&now->counters, pid, &place, time_ns);
	*(volatile spur_u64 *)&now->slice = (time_ns & ~SPUR_METER_SLOT_MASK) | (place.slot + 1);
}

SPUR_INLINE int switch_tasks(struct task_struct *prev, struct task_struct *next, int typed)
{
	spur_u32 cpu = this_cpu();
	struct spur_meter_running *record = map_lookup(&running, &cpu);

	if (!record)
		return 0;
	enter(record, next, leave(record, prev, cpu, typed), typed);
	return 0;
}

#endif
