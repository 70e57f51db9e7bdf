/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A GPU that is real to the kernel and does nothing but take time: a DRM device with a render node, two rings behind the DRM
 * scheduler, clients with fdinfo, and the truth about who kept it busy for how long.
 *
 *   device.c  module, platform devices, DRM device
 *   ring.c    the scheduler's back end and the hardware: a timer
 *   client.c  one opener of the node: its queues, ioctls and fdinfo
 *   truth.c   time executed, by ring and by tag, in sysfs
 */
#ifndef TESTGPU_H
#define TESTGPU_H

#include "compat.h"
#include "spur_testgpu.h"

#include <linux/dma-fence.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <drm/drm_device.h>

#define RINGS SPUR_TESTGPU_RINGS
/* Different tags that the truth is kept for: what a page of sysfs shows. */
#define TAGS 32

struct testgpu_work {
	u64 jobs;
	u64 busy_ns;
};

struct testgpu_tag {
	u64 tag;
	struct testgpu_work rings[RINGS];
};

struct testgpu_truth {
	spinlock_t lock;
	struct testgpu_work rings[RINGS];
	struct testgpu_tag tags[TAGS];
	unsigned int known;
	/* Jobs whose tag found no place. */
	u64 untold;
};

struct testgpu_ring {
	struct drm_gpu_scheduler sched;
	struct testgpu *gpu;
	unsigned int index;
	spinlock_t lock;
	/* Handed over and not done; the first is being executed. */
	struct list_head jobs;
	struct hrtimer timer;
	u64 fence_context;
	u64 fence_seqno;
	/* Jobs that are not freed yet. */
	atomic_t alive;
	wait_queue_head_t drained;
};

struct testgpu {
	struct drm_device drm;
	struct testgpu_ring rings[RINGS];
	struct testgpu_truth truth;
	u64 memory_size;
	atomic64_t memory_used;
};

struct testgpu_client {
	struct kref ref;
	u64 id;
	struct testgpu *gpu;
	struct drm_sched_entity entities[RINGS];
	/* Submissions are one at a time; also guards `last` and memory. */
	struct mutex lock;
	struct dma_fence *last[RINGS];
	atomic64_t busy_ns[RINGS];
	u64 memory_total;
	u64 memory_resident;
};

struct testgpu_job {
	struct drm_sched_job base;
	struct testgpu_client *client;
	struct testgpu_ring *ring;
	struct list_head link;
	/* The hardware's word that it is done; its own once the job is handed over. */
	struct dma_fence *hardware;
	bool handed_over;
	u64 tag;
	u64 duration_ns;
	ktime_t started;
};

extern const char *const testgpu_ring_names[RINGS];

int testgpu_job_prepare(struct testgpu_job *job);
int testgpu_ring_init(struct testgpu *gpu, unsigned int index, unsigned int depth);
void testgpu_ring_fini(struct testgpu_ring *ring);

int testgpu_open(struct drm_device *drm, struct drm_file *file);
void testgpu_close(struct drm_device *drm, struct drm_file *file);
void testgpu_client_put(struct testgpu_client *client);
int testgpu_submit(struct drm_device *drm, void *data, struct drm_file *file);
int testgpu_wait(struct drm_device *drm, void *data, struct drm_file *file);
int testgpu_memory(struct drm_device *drm, void *data, struct drm_file *file);
void testgpu_show_fdinfo(struct seq_file *out, struct file *opened);

void testgpu_truth_init(struct testgpu_truth *truth);
void testgpu_truth_add(struct testgpu_truth *truth, unsigned int ring, u64 tag, u64 busy_ns);
extern const struct attribute_group *testgpu_groups[];

#endif
