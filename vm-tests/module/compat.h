/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between Linux 6.1 and 7.x. Stable updates move some of it within one version (6.12.117 has 6.17's
 * drm_sched_job_init), so Kbuild looks into the headers themselves and defines HAVE_*.
 */
#ifndef TESTGPU_COMPAT_H
#define TESTGPU_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/platform_device.h>
#include <linux/version.h>
#include <drm/drm_file.h>
#include <drm/gpu_scheduler.h>

static inline int testgpu_sched_init(struct drm_gpu_scheduler *sched, const struct drm_sched_backend_ops *ops,
				     unsigned int depth, const char *name, struct device *dev)
{
#ifdef HAVE_SCHED_INIT_ARGS
	struct drm_sched_init_args args = {
		.ops = ops,
		.num_rqs = DRM_SCHED_PRIORITY_COUNT,
		.credit_limit = depth,
		.timeout = MAX_SCHEDULE_TIMEOUT,
		.name = name,
		.dev = dev,
	};

	return drm_sched_init(sched, &args);
#else
	return drm_sched_init(sched, ops, depth, 0, MAX_SCHEDULE_TIMEOUT, NULL, NULL, name, dev);
#endif
}

static inline int testgpu_job_init(struct drm_sched_job *job, struct drm_sched_entity *entity, u64 client)
{
#ifdef HAVE_SCHED_CLIENT_ID
	return drm_sched_job_init(job, entity, 1, NULL, client);
#else
	return drm_sched_job_init(job, entity, NULL);
#endif
}

/* The number of a client, as fdinfo has it. */
static inline u64 testgpu_client_id(struct drm_file *file, atomic64_t *own)
{
#ifdef HAVE_FILE_CLIENT_ID
	return file->client_id;
#else
	return atomic64_inc_return(own);
#endif
}

static inline void testgpu_timer_init(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *))
{
#ifdef HAVE_HRTIMER_SETUP
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	timer->function = function;
#endif
}

#ifdef HAVE_SCHED_STAT_RESET
#define TESTGPU_STAT_GOOD DRM_GPU_SCHED_STAT_RESET
#else
#define TESTGPU_STAT_GOOD DRM_GPU_SCHED_STAT_NOMINAL
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
#define TESTGPU_REMOVE_TYPE void
#define TESTGPU_REMOVED
#else
#define TESTGPU_REMOVE_TYPE int
#define TESTGPU_REMOVED 0
#endif

#endif
