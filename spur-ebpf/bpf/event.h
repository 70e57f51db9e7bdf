/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What fence and guard tell of a refusal: how often, and who it was. */
#ifndef SPUR_EVENT_H
#define SPUR_EVENT_H

#include "fence_maps.h"
#include "fence_decide.h"
#include "kernel.h"

/* What is told apart by the rate limit within a job: a use of a device. Without a device it is the use alone. */
struct spur_audit_use {
	spur_u64 cgroup;
	spur_u32 device;
	spur_u32 operation;
};

/* When the next event of a use is due. Each object has its own: what is forgotten costs a few events more, and no count. */
struct {
	MAP_UINT(type, MAP_LRU_HASH);
	MAP_UINT(max_entries, SPUR_USES_MAX);
	MAP_TYPE(key, struct spur_audit_use);
	MAP_TYPE(value, spur_u64);
} uses SEC(".maps");

/*
 * Rate limit by one word: the time at which the next event would be due if events came evenly. Two CPUs may read the same
 * word and both send; the ring bounds that.
 */
SPUR_INLINE int due(spur_u64 *word, spur_u64 now, spur_u32 burst, spur_u64 interval)
{
	spur_u64 next = *word;

	if (next < now)
		next = now;
	if (next - now > (burst - 1) * interval)
		return 0;
	*word = next + interval;
	return 1;
}

/* A quarter of the job's rate is for any one use, so that a flood on one device does not hide what the job does to others. */
static __attribute__((noinline)) int within_rate(struct spur_fence_policy *policy, const struct spur_audit_use *use)
{
	spur_u32 burst = policy->audit_burst ? policy->audit_burst : SPUR_AUDIT_BURST_DEFAULT;
	spur_u32 per_second = policy->audit_per_second ? policy->audit_per_second : SPUR_AUDIT_PER_SECOND_DEFAULT;
	spur_u64 interval = 1000000000ull / per_second, now = ktime_get_ns(), first = now + 4 * interval;
	spur_u64 *word = map_lookup(&uses, use);

	if (!word)
		map_update(&uses, use, &first, 0);
	else if (!due(word, now, burst < 4 ? 1 : burst / 4, 4 * interval))
		return 0;
	return due(&policy->audit_next_ns, now, burst, interval);
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
