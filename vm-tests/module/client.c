// SPDX-License-Identifier: GPL-2.0-only
// One opener of the render node: its queues, what it asks for, and what fdinfo says of it.
#include "testgpu.h"

#include <linux/jiffies.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

// For kernels whose DRM does not number its files.
static atomic64_t client_ids = ATOMIC64_INIT(0);

static struct testgpu *to_gpu(struct drm_device *drm)
{
	return container_of(drm, struct testgpu, drm);
}

static void release(struct kref *ref)
{
	kfree(container_of(ref, struct testgpu_client, ref));
}

void testgpu_client_put(struct testgpu_client *client)
{
	kref_put(&client->ref, release);
}

int testgpu_open(struct drm_device *drm, struct drm_file *file)
{
	struct testgpu *gpu = to_gpu(drm);
	struct testgpu_client *client = kzalloc(sizeof(*client), GFP_KERNEL);
	unsigned int ring;
	int error;

	if (!client)
		return -ENOMEM;
	kref_init(&client->ref);
	mutex_init(&client->lock);
	client->gpu = gpu;
	client->id = testgpu_client_id(file, &client_ids);
	for (ring = 0; ring < RINGS; ring++) {
		struct drm_gpu_scheduler *sched = &gpu->rings[ring].sched;

		error = drm_sched_entity_init(&client->entities[ring], DRM_SCHED_PRIORITY_NORMAL, &sched, 1, NULL);
		if (error)
			goto undo;
	}
	file->driver_priv = client;
	return 0;
undo:
	while (ring--)
		drm_sched_entity_destroy(&client->entities[ring]);
	kfree(client);
	return error;
}

void testgpu_close(struct drm_device *drm, struct drm_file *file)
{
	struct testgpu_client *client = file->driver_priv;
	unsigned int ring;

	for (ring = 0; ring < RINGS; ring++) {
		// What is queued is dropped if it is not handed over soon.
		drm_sched_entity_destroy(&client->entities[ring]);
		dma_fence_put(client->last[ring]);
	}
	atomic64_sub(client->memory_total, &client->gpu->memory_used);
	testgpu_client_put(client);
}

static int submit_one(struct testgpu_client *client, const struct spur_testgpu_submit *args)
{
	struct testgpu_ring *ring = &client->gpu->rings[args->ring];
	struct testgpu_job *job = kzalloc(sizeof(*job), GFP_KERNEL);
	int error;

	if (!job)
		return -ENOMEM;
	job->ring = ring;
	job->tag = args->tag;
	job->duration_ns = (u64)args->duration_us * NSEC_PER_USEC;
	error = testgpu_job_init(&job->base, &client->entities[args->ring], client->id);
	if (error)
		goto undo;
	error = testgpu_job_prepare(job);
	if (error)
		goto undo_init;
	kref_get(&client->ref);
	job->client = client;
	atomic_inc(&ring->alive);
	drm_sched_job_arm(&job->base);
	dma_fence_put(client->last[args->ring]);
	client->last[args->ring] = dma_fence_get(&job->base.s_fence->finished);
	// From here on it is the scheduler's.
	drm_sched_entity_push_job(&job->base);
	return 0;
undo_init:
	drm_sched_job_cleanup(&job->base);
undo:
	kfree(job);
	return error;
}

int testgpu_submit(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct testgpu_client *client = file->driver_priv;
	const struct spur_testgpu_submit *args = data;
	unsigned int done;
	int error = 0;

	if (args->flags || args->ring >= RINGS || args->count > SPUR_TESTGPU_MAX_COUNT || args->duration_us == 0 ||
	    args->duration_us > SPUR_TESTGPU_MAX_US)
		return -EINVAL;
	mutex_lock(&client->lock);
	for (done = 0; done < args->count && !error; done++)
		error = submit_one(client, args);
	mutex_unlock(&client->lock);
	return error;
}

int testgpu_wait(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct testgpu_client *client = file->driver_priv;
	const struct spur_testgpu_wait *args = data;
	long left = msecs_to_jiffies(args->timeout_ms);
	unsigned int ring;

	if (args->flags)
		return -EINVAL;
	for (ring = 0; ring < RINGS && left > 0; ring++) {
		struct dma_fence *fence;

		mutex_lock(&client->lock);
		fence = dma_fence_get(client->last[ring]);
		mutex_unlock(&client->lock);
		if (fence)
			left = dma_fence_wait_timeout(fence, true, left);
		dma_fence_put(fence);
	}
	if (left < 0)
		return left;
	return left == 0 ? -ETIME : 0;
}

int testgpu_memory(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct testgpu_client *client = file->driver_priv;
	const struct spur_testgpu_memory *args = data;
	struct testgpu *gpu = client->gpu;
	int error = 0;
	s64 more;

	if (args->resident > args->total)
		return -EINVAL;
	if (args->total > gpu->memory_size)
		return -ENOSPC;
	mutex_lock(&client->lock);
	more = (s64)args->total - (s64)client->memory_total;
	if (atomic64_add_return(more, &gpu->memory_used) > (s64)gpu->memory_size && more > 0) {
		atomic64_sub(more, &gpu->memory_used);
		error = -ENOSPC;
	} else {
		client->memory_total = args->total;
		client->memory_resident = args->resident;
	}
	mutex_unlock(&client->lock);
	return error;
}

// Documentation/gpu/drm-usage-stats.rst. There is no drm-pdev: the device is no PCI device.
void testgpu_show_fdinfo(struct seq_file *out, struct file *opened)
{
	struct drm_file *file = opened->private_data;
	struct testgpu_client *client = file->driver_priv;
	unsigned int ring;

	seq_printf(out, "drm-driver:\tspur_testgpu\ndrm-client-id:\t%llu\n", client->id);
	for (ring = 0; ring < RINGS; ring++)
		seq_printf(out, "drm-engine-%s:\t%llu ns\n", testgpu_ring_names[ring],
			   (u64)atomic64_read(&client->busy_ns[ring]));
	seq_printf(out, "drm-total-memory:\t%llu KiB\n", READ_ONCE(client->memory_total) >> 10);
	seq_printf(out, "drm-resident-memory:\t%llu KiB\n", READ_ONCE(client->memory_resident) >> 10);
}
