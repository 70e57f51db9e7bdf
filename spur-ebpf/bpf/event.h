/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What fence and guard tell of a refusal: how often, and who it was. */
#ifndef SPUR_EVENT_H
#define SPUR_EVENT_H

#include "fence_maps.h"
#include "fence_decide.h"
#include "kernel.h"

/*
 * Rate limit by one word: the time at which the next event would be due if events came evenly. Two CPUs may read the same
 * word and both send; the ring bounds that.
 */
SPUR_INLINE int within_rate(struct spur_fence_policy *policy)
{
	spur_u32 burst, per_second;
	spur_u64 now = ktime_get_ns(), interval, next;

	burst = policy->audit_burst ? policy->audit_burst : SPUR_AUDIT_BURST_DEFAULT;
	per_second = policy->audit_per_second ? policy->audit_per_second : SPUR_AUDIT_PER_SECOND_DEFAULT;
	interval = 1000000000ull / per_second;
	next = policy->audit_next_ns;
	if (next < now)
		next = now;
	if (next - now > (burst - 1) * interval)
		return 0;
	policy->audit_next_ns = next + interval;
	return 1;
}

/* The members that say who, when, and under which policy. Not inlined, so that the event's type is part of the object's BTF. */
static __attribute__((noinline)) int fill_event(struct spur_fence_event *event, const struct spur_fence_policy *policy)
{
	struct task_struct *task = (struct task_struct *)current_task();

	event->time_ns = ktime_get_ns();
	event->job = policy->job;
	event->generation = policy->generation;
	event->cgroup = current_cgroup_id();
	event->step = policy->step;
	event->pid = 0;
	event->tgid = 0;
	event->uid = (spur_u32)current_uid_gid();
	event->reserved = 0;
	__builtin_memset(event->comm, 0, sizeof(event->comm));
	__builtin_memset(event->object, 0, sizeof(event->object));
	probe_read_kernel(&event->pid, sizeof(event->pid), &task->pid);
	probe_read_kernel(&event->tgid, sizeof(event->tgid), &task->tgid);
	probe_read_kernel(event->comm, sizeof(event->comm), &task->comm);
	return 0;
}

#endif
