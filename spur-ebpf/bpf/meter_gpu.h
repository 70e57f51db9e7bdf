/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Time on GPUs whose driver has the kernel schedule them: who queued a job is charged for it. The functions take plain numbers, so
 * that a test can play a GPU without one.
 */
#ifndef SPUR_METER_GPU_H
#define SPUR_METER_GPU_H

#include "meter_slot.h"

/* By the address of the job's fence. A job that is never done (its process was killed first) is forgotten when room is wanted. */
struct {
	MAP_UINT(type, MAP_LRU_HASH);
	MAP_UINT(max_entries, SPUR_METER_GPU_JOBS);
	MAP_TYPE(key, spur_u64);
	MAP_TYPE(value, struct spur_meter_gpu_job);
} gpu_jobs SEC(".maps");

/* By the address of the scheduler. */
struct {
	MAP_UINT(type, MAP_LRU_HASH);
	MAP_UINT(max_entries, SPUR_METER_GPU_RINGS);
	MAP_TYPE(key, spur_u64);
	MAP_TYPE(value, struct spur_meter_gpu_ring);
} gpu_rings SEC(".maps");

struct {
	MAP_UINT(type, MAP_HASH);
	MAP_UINT(max_entries, SPUR_METER_GPU_WORK);
	MAP_TYPE(key, struct spur_meter_gpu_key);
	MAP_TYPE(value, struct spur_meter_gpu_work);
} gpu_work SEC(".maps");

SPUR_INLINE struct spur_meter_gpu_totals *totals(void)
{
	spur_u32 zero = 0;

	return map_lookup(&gpu_totals, &zero);
}

SPUR_INLINE void note_event(void)
{
	struct spur_meter_gpu_totals *total = totals();

	if (total)
		add(&total->events, 1);
}

SPUR_INLINE void lose_job(void)
{
	struct spur_meter_gpu_totals *total = totals();

	if (total)
		add(&total->lost_jobs, 1);
}

/* A job is queued by the running task. Jobs of processes that nobody meters are followed too: they keep the GPU from others. */
SPUR_INLINE void gpu_queued(spur_u64 fence, const struct spur_meter_place *place, spur_u64 time_ns)
{
	struct spur_meter_gpu_job job = {.place = *place, .queued_ns = time_ns};

	map_update(&gpu_jobs, &fence, &job, 0);
}

/* It is handed to the GPU. */
SPUR_INLINE void gpu_run(spur_u64 fence, spur_u64 ring, spur_u64 time_ns)
{
	struct spur_meter_gpu_job *job = map_lookup(&gpu_jobs, &fence);

	if (!job)
		return;
	job->ring = ring;
	job->run_ns = time_ns;
	note_event();
}

SPUR_INLINE void charge_gpu(const struct spur_meter_gpu_job *job, const struct spur_meter_gpu_ring *ring, spur_u64 start, spur_u64 time_ns)
{
	struct spur_meter_gpu_key key = {.place = job->place};
	struct spur_meter_gpu_work none = {}, *work;
	struct spur_meter_gpu_totals *total;

	if (!job->place.generation || !slot_at(&job->place, 0))
		return;
	__builtin_memcpy(key.device, ring->device, sizeof(key.device));
	__builtin_memcpy(key.ring, ring->name, sizeof(key.ring));
	work = map_lookup(&gpu_work, &key);
	if (!work) {
		map_update(&gpu_work, &key, &none, IF_ABSENT);
		work = map_lookup(&gpu_work, &key);
	}
	if (work) {
		add(&work->busy_ns, time_ns - start);
		add(&work->queue_ns, start - job->queued_ns);
		add(&work->jobs, 1);
		return;
	}
	total = totals();
	if (total)
		add(&total->lost_rows, 1);
}

/*
 * It is done. A scheduler hands over the next job before the last is done, so that it had the GPU to itself only since then.
 * `ring` is not NULL.
 */
SPUR_INLINE void gpu_done(spur_u64 fence, struct spur_meter_gpu_ring *ring, spur_u64 time_ns)
{
	const struct spur_meter_gpu_job *job = map_lookup(&gpu_jobs, &fence);
	spur_u64 start;

	note_event();
	if (!job || !job->run_ns) {
		lose_job();
		ring->done_ns = time_ns;
		if (job)
			map_delete(&gpu_jobs, &fence);
		return;
	}
	start = job->run_ns > ring->done_ns ? job->run_ns : ring->done_ns;
	if (start < job->queued_ns) /* an address that is used again */
		start = job->queued_ns;
	if (start > time_ns)
		start = time_ns;
	charge_gpu(job, ring, start, time_ns);
	ring->done_ns = time_ns;
	ring->done_run_ns = job->run_ns;
	map_delete(&gpu_jobs, &fence);
}

#endif
