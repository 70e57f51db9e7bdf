/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Whose process runs, what it is granted, and how a refusal is told. */
#ifndef SPUR_WARD_H
#define SPUR_WARD_H

#include "event.h"
#include "table.h"

/* Set by the loader, so that the verifier knows the level. */
const volatile struct spur_guard_settings settings SEC(".rodata.guard") = {};

/* The job of the running process, and its step where that has a policy of its own. */
struct ward {
	spur_u64 id;
	struct spur_fence_policy *job;
	struct spur_fence_policy *step;
	spur_u64 step_id;
};

/* What was tried. */
struct attempt {
	spur_u32 operation;
	spur_u32 verdict;
	spur_u32 device; /* as the kernel has it, or 0 */
	spur_u32 access;
	spur_u32 target;
	spur_u32 flags;
	const void *name; /* in kernel memory, or NULL */
	spur_u32 is_dma_buf;
	spur_u32 reserved;
};

/* Whether the running process belongs to a job of ours: one helper and one lookup if it does not. */
SPUR_INLINE int find_job(struct ward *ward)
{
	ward->id = current_ancestor_cgroup_id(settings.job_level);
	ward->job = ward->id ? map_lookup(&guard_policies, &ward->id) : 0;
	return ward->job != 0;
}

SPUR_INLINE void find_step(struct ward *ward)
{
	ward->step_id = current_ancestor_cgroup_id(settings.job_level + 1);
	ward->step = ward->step_id ? map_lookup(&guard_policies, &ward->step_id) : 0;
}

/* The job's cgroup of another process, or 0. */
SPUR_INLINE spur_u64 job_of(struct task_struct *task)
{
	struct cgroup *group = task->cgroups->dfl_cgrp, *job = 0;
	struct kernfs_node *node = 0;
	struct cgroup **ancestors;
	spur_u64 id = 0;

	if (group->level < (int)settings.job_level)
		return 0;
	ancestors = &group->ancestors[0];
	probe_read_kernel(&job, sizeof(job), ancestors + settings.job_level);
	probe_read_kernel(&node, sizeof(node), &job->kn);
	probe_read_kernel(&id, sizeof(id), &node->id);
	return id;
}

SPUR_INLINE const struct spur_fence_policy *spur_find_policy(void *env)
{
	return env;
}

#define MAJOR(device) ((device) >> 20)
#define MINOR(device) ((device) & 0xfffff)

/* The same verdict as the fence's, by one policy. */
static __attribute__((noinline)) spur_u32 decide(struct spur_fence_policy *policy, spur_u32 device, spur_u32 access)
{
	return spur_decide(policy, SPUR_DEVICE_CHAR, access, MAJOR(device), MINOR(device));
}

/* What is never fenced leaves here, before anything is looked up. */
SPUR_INLINE int is_free(spur_u32 device)
{
	if ((spur_read_major(0, MAJOR(device)) & SPUR_CLASS_MASK) == SPUR_CLASS_OPEN)
		return 1;
	return spur_is_base_device(MAJOR(device), MINOR(device));
}

/* The job has to grant it, and its step, if that has a policy. */
SPUR_INLINE spur_u32 decide_both(struct ward *ward, spur_u32 device, spur_u32 access)
{
	spur_u32 verdict = decide(ward->job, device, access);

	if (verdict >= SPUR_DENY_FIRST)
		return verdict;
	find_step(ward);
	return ward->step ? decide(ward->step, device, access) : verdict;
}

static __attribute__((noinline)) int send_attempt(struct ward *ward, const struct attempt *attempt)
{
	struct spur_fence_event *event = ringbuf_reserve(&audit, sizeof(*event), 0);

	if (!event)
		return 0;
	fill_event(event, ward->job);
	if (ward->step)
		event->step = ward->step->step;
	event->major = MAJOR(attempt->device);
	event->minor = MINOR(attempt->device);
	event->access = (spur_u16)attempt->access;
	event->type = attempt->device ? SPUR_DEVICE_CHAR : 0;
	event->verdict = attempt->verdict;
	event->operation = attempt->operation;
	event->target = attempt->target;
	event->flags = attempt->flags;
	if (attempt->name)
		probe_read_kernel_str(event->object, sizeof(event->object), attempt->name);
	else if (attempt->is_dma_buf)
		__builtin_memcpy(event->object, "dma-buf", 8);
	ringbuf_submit(event, 0);
	return 1;
}

/* Counts for the job, so that denied = emitted + suppressed + lost, and sends an event within its rate. */
SPUR_INLINE void report(struct ward *ward, const struct attempt *attempt)
{
	struct spur_fence_counters *count = map_lookup(&guard_counters, &ward->id);
	struct spur_audit_use use = {.cgroup = ward->id, .device = attempt->device, .operation = attempt->operation};
	int noted = attempt->flags & SPUR_EVENT_NOTED, quiet, sent;

	if (!count)
		return;
	find_step(ward);
	quiet = (ward->step ? ward->step : ward->job)->flags & SPUR_POLICY_QUIET || !within_rate(ward->job, &use);
	sent = quiet ? 0 : send_attempt(ward, attempt);
	if (noted) {
		__sync_fetch_and_add(&count->noted, 1);
		return;
	}
	__sync_fetch_and_add(&count->denied, 1);
	if (quiet)
		__sync_fetch_and_add(&count->suppressed, 1);
	else if (sent)
		__sync_fetch_and_add(&count->emitted, 1);
	else
		__sync_fetch_and_add(&count->lost, 1);
}

/* Refuses, counts and tells. */
static __attribute__((noinline)) int refuse(struct ward *ward, const struct attempt *attempt)
{
	report(ward, attempt);
	return attempt->flags & SPUR_EVENT_NOTED ? 0 : -EPERM;
}

#endif
