/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The device fence: one program for every fenced cgroup of a node. Which devices are fenced is one table for the node; what
 * is granted is the policy of the cgroup to which the link belongs, so a process in a nested cgroup meets the same policy.
 * Uses only helpers that cgroup/dev programs have since Linux 5.10.
 */
#include "event.h"
#include "table.h"

char LICENSE[] SEC("license") = "GPL";

SPUR_INLINE const struct spur_fence_policy *spur_find_policy(void *env)
{
	return local_storage(&policies, 0);
}

SPUR_INLINE int send_event(const struct device_ctx *ctx, const struct spur_fence_policy *policy, spur_u32 verdict)
{
	struct spur_fence_event *event = ringbuf_reserve(&audit, sizeof(*event), 0);

	if (!event)
		return 0;
	fill_event(event, policy);
	event->major = ctx->major;
	event->minor = ctx->minor;
	event->access = (spur_u16)(ctx->access_type >> 16);
	event->type = (spur_u16)ctx->access_type;
	event->verdict = verdict;
	event->operation = SPUR_OP_DEVICE;
	event->target = 0;
	event->flags = 0;
	ringbuf_submit(event, 0);
	return 1;
}

/* Not inlined, so that the way of an allowed open saves few registers. */
static __attribute__((noinline)) int account(const struct device_ctx *ctx, spur_u32 verdict)
{
	struct spur_fence_policy *policy = local_storage(&policies, 0);
	struct spur_fence_counters *count = local_storage(&counters, 0);
	struct spur_audit_use use = {.device = ctx->major << 20 | ctx->minor, .operation = SPUR_OP_DEVICE};

	use.cgroup = policy->cgroup;
	__sync_fetch_and_add(&count->denied, 1);
	if (policy->flags & SPUR_POLICY_QUIET || !within_rate(policy, &use))
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
