/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Processes that start, end, and are killed for want of memory. */
#ifndef SPUR_METER_PROCESS_H
#define SPUR_METER_PROCESS_H

#include "meter_seen.h"

/* Processes of several threads that have been counted as ended. */
struct {
	MAP_UINT(type, MAP_LRU_HASH);
	MAP_UINT(max_entries, SPUR_METER_ENDING);
	MAP_TYPE(key, struct spur_meter_ending);
	MAP_TYPE(value, spur_u32);
} ending SEC(".maps");

/* Threads that the kernel named as victims, where it gives their number only: they are counted when they end. */
struct {
	MAP_UINT(type, MAP_LRU_HASH);
	MAP_UINT(max_entries, SPUR_METER_VICTIMS);
	MAP_TYPE(key, spur_u32);
	MAP_TYPE(value, spur_u32);
} victims SEC(".maps");

SPUR_INLINE struct spur_meter_slot *slot_of(struct task_struct *task, int typed)
{
	struct spur_meter_place place;

	return place_of(&place, task, typed) ? slot_at(&place, this_cpu()) : 0;
}

/* The child is in its cgroup by now, also one that was cloned into it. Threads are no processes, and begin at 0 too. */
SPUR_INLINE int start_task(struct task_struct *child, int typed)
{
	const struct spur_meter_counters none = {};
	spur_u32 pid = GET(typed, child->pid);
	struct spur_meter_place place;
	struct spur_meter_slot *slot;

	if (!place_of(&place, child, typed))
		return 0;
	remember(&none, pid, &place, ktime_get_ns());
	slot = pid == (spur_u32)GET(typed, child->tgid) ? slot_at(&place, this_cpu()) : 0;
	if (slot)
		add(&slot->starts, 1);
	return 0;
}

/*
 * Whether a process ends with this thread, where the event does not say so. Each thread has been taken off the living before the
 * event, and several may see none left: the first of them counts.
 */
SPUR_INLINE int is_last(struct task_struct *task, int typed)
{
	struct signal_struct *signal = GET(typed, task->signal);
	struct task_struct *leader = GET(typed, task->group_leader);
	struct spur_meter_ending key = {.signal = (spur_u64)signal};
	spur_u32 one = 1;

	if (GET(typed, signal->live.counter) > 0)
		return 0;
	key.started_ns = GET(typed, leader->start_time);
	/* Alone, it is the last, or has outlived others that ended with it: one of those may have counted. */
	if (GET(typed, signal->nr_threads) == 1)
		return !map_lookup(&ending, &key);
	return map_update(&ending, &key, &one, IF_ABSENT) == 0;
}

/* `ends`: whether it is the process that ends, and no thread alone. */
SPUR_INLINE int end_thread(struct task_struct *task, int ends, int typed)
{
	int killed = 0;
	struct spur_meter_slot *slot;

	if (!(settings.flags & SPUR_METER_VICTIM_TASK)) {
		spur_u32 pid = GET(typed, task->pid);

		killed = map_lookup(&victims, &pid) != 0;
		if (killed)
			map_delete(&victims, &pid);
	}
	if (!ends && !killed)
		return 0;
	slot = slot_of(task, typed);
	if (!slot)
		return 0;
	if (ends)
		add(&slot->ends, 1);
	if (killed)
		add(&slot->oom_kills, 1);
	return 0;
}

SPUR_INLINE int kill_victim(struct task_struct *task, int typed)
{
	struct spur_meter_slot *slot = slot_of(task, typed);

	if (slot)
		add(&slot->oom_kills, 1);
	return 0;
}

SPUR_INLINE int note_victim(spur_u32 pid)
{
	spur_u32 one = 1;

	map_update(&victims, &pid, &one, 0);
	return 0;
}

#endif
