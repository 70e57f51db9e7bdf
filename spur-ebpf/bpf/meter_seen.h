/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What is remembered of tasks while they do not run: their counters when they were last seen. A task goes on from there, because
 *   - its wait also grows while it does not run, when it is moved from one queue to another,
 *   - some kernels bring its times up to date only after the switch,
 *   - kernels were seen that tell of no switch away from some tasks, and so hide that another comes.
 * A fixed table by the low bits of the pid: who finds another's row begins anew, and loses no more than the above.
 */
#ifndef SPUR_METER_SEEN_H
#define SPUR_METER_SEEN_H

#include "meter_slot.h"

struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, SPUR_METER_SEEN);
	MAP_TYPE(key, spur_u32);
	MAP_TYPE(value, struct spur_meter_seen);
} seen SEC(".maps");

/* By so much may times that the tick counts be ahead: the longest tick. */
#define TICK_NS 10000000ull

SPUR_INLINE struct spur_meter_seen *seen_of(spur_u32 pid)
{
	spur_u32 index = pid & (SPUR_METER_SEEN - 1);

	return map_lookup(&seen, &index);
}

SPUR_INLINE void read_counters(struct spur_meter_counters *now, struct task_struct *task, int typed)
{
	now->exec_ns = GET(typed, task->se.sum_exec_runtime);
	now->wait_ns = GET_IF(typed, task->sched_info.run_delay);
	now->user_ns = GET(typed, task->utime);
	now->system_ns = GET(typed, task->stime);
	now->major_faults = GET(typed, task->maj_flt);
	now->minor_faults = GET(typed, task->min_flt);
}

SPUR_INLINE void remember(const struct spur_meter_counters *now, spur_u32 pid, const struct spur_meter_place *place, spur_u64 time_ns)
{
	struct spur_meter_seen *was = seen_of(pid);

	if (!was)
		return;
	was->pid = pid;
	was->place = *place;
	was->time_ns = time_ns;
	was->counters = *now;
}

/* Puts counters back to where the task was last seen, if that was in the same place, and can have been this task. */
SPUR_INLINE void resume(struct spur_meter_counters *now, spur_u32 pid, const struct spur_meter_place *place, spur_u64 time_ns)
{
	const struct spur_meter_seen *was = seen_of(pid);
	spur_u64 away;

	if (!was || was->pid != pid || was->place.slot != place->slot || was->place.generation != place->generation)
		return;
	away = time_ns - was->time_ns;
	if (now->exec_ns - was->counters.exec_ns > away)
		return;
	now->exec_ns = was->counters.exec_ns;
	if (now->wait_ns - was->counters.wait_ns <= away)
		now->wait_ns = was->counters.wait_ns;
	away += TICK_NS;
	if (now->user_ns - was->counters.user_ns <= away)
		now->user_ns = was->counters.user_ns;
	if (now->system_ns - was->counters.system_ns <= away)
		now->system_ns = was->counters.system_ns;
	if (now->major_faults >= was->counters.major_faults)
		now->major_faults = was->counters.major_faults;
	if (now->minor_faults >= was->counters.minor_faults)
		now->minor_faults = was->counters.minor_faults;
}

#endif
