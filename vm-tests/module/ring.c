// SPDX-License-Identifier: GPL-2.0-only
// One ring: the DRM scheduler's back end, and the hardware behind it, which is a timer. The hardware executes one job after the
// other; how many it is handed ahead is the ring's depth.
#include "testgpu.h"

#include <linux/slab.h>

const char *const testgpu_ring_names[RINGS] = {
	[SPUR_TESTGPU_COMPUTE] = "compute",
	[SPUR_TESTGPU_COPY] = "copy",
};

// A fence may outlive its job and its ring, so it has a lock of its own.
struct hardware_fence {
	struct dma_fence base;
	spinlock_t lock;
};

static const char *driver_name(struct dma_fence *fence)
{
	return "spur_testgpu";
}

static const char *timeline_name(struct dma_fence *fence)
{
	return "hardware";
}

static const struct dma_fence_ops fence_ops = {
	.get_driver_name = driver_name,
	.get_timeline_name = timeline_name,
};

// Made beforehand, so that nothing lies between the scheduler's word that it hands a job over and the hardware's start.
int testgpu_job_prepare(struct testgpu_job *job)
{
	struct hardware_fence *fence = kzalloc(sizeof(*fence), GFP_KERNEL);

	if (!fence)
		return -ENOMEM;
	spin_lock_init(&fence->lock);
	job->hardware = &fence->base;
	return 0;
}

static struct testgpu_job *to_job(struct drm_sched_job *base)
{
	return container_of(base, struct testgpu_job, base);
}

static struct dma_fence *run_job(struct drm_sched_job *base)
{
	struct testgpu_job *job = to_job(base);
	struct testgpu_ring *ring = job->ring;
	struct dma_fence *fence = job->hardware;
	unsigned long flags;

	spin_lock_irqsave(&ring->lock, flags);
	dma_fence_init(fence, &fence_ops, &container_of(fence, struct hardware_fence, base)->lock, ring->fence_context,
		       ++ring->fence_seqno);
	job->handed_over = true;
	// One reference for the hardware, one for the scheduler.
	dma_fence_get(fence);
	list_add_tail(&job->link, &ring->jobs);
	if (list_is_singular(&ring->jobs)) {
		job->started = ktime_get();
		hrtimer_start(&ring->timer, ns_to_ktime(job->duration_ns), HRTIMER_MODE_REL);
	}
	spin_unlock_irqrestore(&ring->lock, flags);
	return fence;
}

// The hardware has executed the first job: the books first, then the next job, then the word that this one is done.
static enum hrtimer_restart job_done(struct hrtimer *timer)
{
	struct testgpu_ring *ring = container_of(timer, struct testgpu_ring, timer);
	enum hrtimer_restart again = HRTIMER_NORESTART;
	struct testgpu_job *job, *next;
	struct dma_fence *fence;
	unsigned long flags;
	ktime_t now;
	u64 busy;

	spin_lock_irqsave(&ring->lock, flags);
	job = list_first_entry(&ring->jobs, struct testgpu_job, link);
	now = ktime_get();
	busy = ktime_to_ns(ktime_sub(now, job->started));
	testgpu_truth_add(&ring->gpu->truth, ring->index, job->tag, busy);
	atomic64_add(busy, &job->client->busy_ns[ring->index]);
	list_del(&job->link);
	fence = job->hardware;
	next = list_first_entry_or_null(&ring->jobs, struct testgpu_job, link);
	if (next) {
		next->started = now;
		hrtimer_set_expires(timer, ktime_add_ns(now, next->duration_ns));
		again = HRTIMER_RESTART;
	}
	spin_unlock_irqrestore(&ring->lock, flags);
	// From here on the job may be freed at any time.
	dma_fence_signal(fence);
	dma_fence_put(fence);
	return again;
}

static enum drm_gpu_sched_stat timedout_job(struct drm_sched_job *base)
{
	// Never called: the scheduler waits for ever.
	return TESTGPU_STAT_GOOD;
}

static void free_job(struct drm_sched_job *base)
{
	struct testgpu_job *job = to_job(base);
	struct testgpu_ring *ring = job->ring;

	drm_sched_job_cleanup(base);
	if (!job->handed_over)
		kfree(container_of(job->hardware, struct hardware_fence, base));
	testgpu_client_put(job->client);
	kfree(job);
	if (atomic_dec_and_test(&ring->alive))
		wake_up_all(&ring->drained);
}

static const struct drm_sched_backend_ops sched_ops = {
	.run_job = run_job,
	.timedout_job = timedout_job,
	.free_job = free_job,
};

int testgpu_ring_init(struct testgpu *gpu, unsigned int index, unsigned int depth)
{
	struct testgpu_ring *ring = &gpu->rings[index];

	ring->gpu = gpu;
	ring->index = index;
	spin_lock_init(&ring->lock);
	INIT_LIST_HEAD(&ring->jobs);
	init_waitqueue_head(&ring->drained);
	ring->fence_context = dma_fence_context_alloc(1);
	testgpu_timer_init(&ring->timer, job_done);
	return testgpu_sched_init(&ring->sched, &sched_ops, depth, testgpu_ring_names[index], gpu->drm.dev);
}

// The last client is gone, and no new one can come: what is queued is executed to its end.
void testgpu_ring_fini(struct testgpu_ring *ring)
{
	wait_event(ring->drained, atomic_read(&ring->alive) == 0);
	hrtimer_cancel(&ring->timer);
	drm_sched_fini(&ring->sched);
}
