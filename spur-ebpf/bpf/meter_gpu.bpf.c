/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The meter at the kernel's GPU scheduler (drm_sched). Its tracepoints have two sets of names, whose arguments are the same:
 *   queue: drm_sched_job, drm_sched_job_queue          (job, entity)
 *   run:   drm_run_job, drm_sched_job_run              (job, entity)
 *   done:  drm_sched_process_job, drm_sched_job_done   (fence)
 * The loader names them. An object of its own, because the scheduler's types are a module's that may come later. Newer kernels take
 * every argument of a module's event for one that may be missing.
 */
#include "meter_gpu.h"
#include "meter_hold.h"

char LICENSE[] SEC("license") = "GPL";

struct kobject {
	const char *name;
} CORE;

struct device {
	struct kobject kobj;
} CORE;

struct drm_gpu_scheduler {
	const char *name;
	struct device *dev; /* since Linux 5.17 */
} CORE;

struct drm_sched_fence {
	struct drm_gpu_scheduler *sched;
} CORE;

struct drm_sched_job {
	struct drm_gpu_scheduler *sched;
	struct drm_sched_fence *s_fence;
} CORE;

/* The scheduler's row, made at its first event. */
SPUR_INLINE struct spur_meter_gpu_ring *ring_of(struct drm_gpu_scheduler *sched, int typed)
{
	spur_u64 key = (spur_u64)sched;
	struct device *device = GET_IF(typed, sched->dev);
	struct spur_meter_gpu_ring *ring = map_lookup(&gpu_rings, &key), new = {.bus_device = (spur_u64)device};

	if (ring && ring->bus_device == (spur_u64)device)
		return ring;
	if (device)
		probe_read_kernel_str(new.device, sizeof(new.device), GET(typed, device->kobj.name));
	probe_read_kernel_str(new.name, sizeof(new.name), GET(typed, sched->name));
	map_update(&gpu_rings, &key, &new, 0);
	return map_lookup(&gpu_rings, &key);
}

SPUR_INLINE int any_queue(struct drm_sched_job *job, int typed)
{
	struct spur_meter_place place = {};

	if (!job)
		return 0;
	place_of_current(&place);
	gpu_queued((spur_u64)GET(typed, job->s_fence), &place, ktime_get_ns());
	return 0;
}

SPUR_INLINE int any_run(struct drm_sched_job *job, int typed)
{
	struct drm_gpu_scheduler *sched;

	if (!job)
		return 0;
	sched = GET(typed, job->sched);
	ring_of(sched, typed);
	gpu_run((spur_u64)GET(typed, job->s_fence), (spur_u64)sched, ktime_get_ns());
	return 0;
}

SPUR_INLINE int any_done(struct drm_sched_fence *fence, int typed)
{
	struct spur_meter_gpu_ring *ring;

	if (!fence)
		return 0;
	ring = ring_of(GET(typed, fence->sched), typed);
	if (ring)
		gpu_done((spur_u64)fence, ring, ktime_get_ns());
	return 0;
}

SEC("tp_btf")
int queue_typed(spur_u64 *ctx)
{
	return HOLDING_CPU(any_queue((struct drm_sched_job *)ctx[0], 1));
}

SEC("raw_tp")
int queue_raw(spur_u64 *ctx)
{
	return HOLDING_CPU(any_queue((struct drm_sched_job *)ctx[0], 0));
}

SEC("tp_btf")
int run_typed(spur_u64 *ctx)
{
	return HOLDING_CPU(any_run((struct drm_sched_job *)ctx[0], 1));
}

SEC("raw_tp")
int run_raw(spur_u64 *ctx)
{
	return HOLDING_CPU(any_run((struct drm_sched_job *)ctx[0], 0));
}

SEC("tp_btf")
int done_typed(spur_u64 *ctx)
{
	return HOLDING_CPU(any_done((struct drm_sched_fence *)ctx[0], 1));
}

SEC("raw_tp")
int done_raw(spur_u64 *ctx)
{
	return HOLDING_CPU(any_done((struct drm_sched_fence *)ctx[0], 0));
}
