/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The device fence: one program for every fenced cgroup of a node. Which devices are fenced is one table for the node; what
 * is granted is the policy of the cgroup to which the link belongs, so a process in a nested cgroup meets the same policy.
 * Uses only helpers that cgroup/dev programs have since Linux 5.10.
 */
#include "fence_maps.h"
#include "fence_decide.h"

char LICENSE[] SEC("license") = "GPL";

/* What we read of the kernel's own struct; the loader finds the real offsets. */
struct task_struct {
	int pid;
	int tgid;
	char comm[SPUR_COMM_LEN];
} CORE;

SPUR_INLINE spur_u32 spur_read_major(void *env, spur_u32 major)
{
	SPUR_OPAQUE(major);
	return table.majors[major & (SPUR_MAJORS - 1)];
}

SPUR_INLINE spur_u32 spur_read_entry(void *env, spur_u32 index)
{
	SPUR_OPAQUE(index);
	return table.entries[index & (SPUR_SLOTS * SPUR_SLOT_MINORS - 1)];
}

SPUR_INLINE spur_u32 spur_find_entry(void *env, spur_u32 major, spur_u32 minor)
{
	struct spur_fence_device_key key = {.major = major, .minor = minor};
	const spur_u32 *entry = map_lookup(&devices, &key);

	return entry ? *entry : SPUR_ENTRY_NONE;
}

SPUR_INLINE const struct spur_fence_policy *spur_find_policy(void *env)
{
	return local_storage(&policies, 0);
}

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

/* Not inlined, so that the event's type is part of the object's BTF, where the layout test finds it. */
static __attribute__((noinline)) int fill_event(struct spur_fence_event *event, const struct device_ctx *ctx, const struct spur_fence_policy *policy)
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
	event->major = ctx->major;
	event->minor = ctx->minor;
	event->access = (spur_u16)(ctx->access_type >> 16);
	event->type = (spur_u16)ctx->access_type;
	__builtin_memset(event->comm, 0, sizeof(event->comm));
	probe_read_kernel(&event->pid, sizeof(event->pid), &task->pid);
	probe_read_kernel(&event->tgid, sizeof(event->tgid), &task->tgid);
	probe_read_kernel(event->comm, sizeof(event->comm), &task->comm);
	return 0;
}

SPUR_INLINE int send_event(const struct device_ctx *ctx, const struct spur_fence_policy *policy, spur_u32 verdict)
{
	struct spur_fence_event *event = ringbuf_reserve(&audit, sizeof(*event), 0);

	if (!event)
		return 0;
	event->verdict = verdict;
	fill_event(event, ctx, policy);
	ringbuf_submit(event, 0);
	return 1;
}

/* Not inlined, so that the way of an allowed open saves few registers. */
static __attribute__((noinline)) int account(const struct device_ctx *ctx, spur_u32 verdict)
{
	struct spur_fence_policy *policy = local_storage(&policies, 0);
	struct spur_fence_counters *count = local_storage(&counters, 0);

	__sync_fetch_and_add(&count->denied, 1);
	if (policy->flags & SPUR_POLICY_QUIET || !within_rate(policy))
		__sync_fetch_and_add(&count->suppressed, 1);
	else if (send_event(ctx, policy, verdict))
		__sync_fetch_and_add(&count->emitted, 1);
	else
		__sync_fetch_and_add(&count->lost, 1);
	return 0;
}

SEC("cgroup/dev")
int spur_fence(struct device_ctx *ctx)
{
	spur_u32 access_type = ctx->access_type;
	spur_u32 verdict = spur_decide(0, access_type & 0xffff, access_type >> 16, ctx->major, ctx->minor);

	if (verdict < SPUR_DENY_FIRST)
		return 1;
	account(ctx, verdict);
	return 0;
}
