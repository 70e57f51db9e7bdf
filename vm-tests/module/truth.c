// SPDX-License-Identifier: GPL-2.0-only
// What was really executed: time by ring and by tag, measured where the hardware starts and ends a job.
#include "testgpu.h"

#include <linux/sysfs.h>

void testgpu_truth_init(struct testgpu_truth *truth)
{
	spin_lock_init(&truth->lock);
}

static struct testgpu_tag *find_tag(struct testgpu_truth *truth, u64 tag)
{
	unsigned int at;

	for (at = 0; at < truth->known; at++)
		if (truth->tags[at].tag == tag)
			return &truth->tags[at];
	if (truth->known == TAGS)
		return NULL;
	truth->tags[truth->known].tag = tag;
	return &truth->tags[truth->known++];
}

static void add(struct testgpu_work *work, u64 busy_ns)
{
	work->jobs++;
	work->busy_ns += busy_ns;
}

// Called by the hardware, with interrupts off.
void testgpu_truth_add(struct testgpu_truth *truth, unsigned int ring, u64 tag, u64 busy_ns)
{
	struct testgpu_tag *found;

	spin_lock(&truth->lock);
	add(&truth->rings[ring], busy_ns);
	found = find_tag(truth, tag);
	if (found)
		add(&found->rings[ring], busy_ns);
	else
		truth->untold++;
	spin_unlock(&truth->lock);
}

static int show_work(char *page, int at, const char *of, u64 number, unsigned int ring, const struct testgpu_work *work)
{
	if (work->jobs == 0)
		return 0;
	return sysfs_emit_at(page, at, "%s %llu %s jobs %llu busy_ns %llu\n", of, number, testgpu_ring_names[ring],
			     work->jobs, work->busy_ns);
}

// Lines `device 0 RING jobs N busy_ns N`, then `tag TAG RING jobs N busy_ns N`; `untold N` if tags found no place.
static ssize_t truth_show(struct device *dev, struct device_attribute *attr, char *page)
{
	struct testgpu *gpu = dev_get_drvdata(dev);
	struct testgpu_truth *truth = &gpu->truth;
	unsigned int ring, tag;
	int at = 0;

	spin_lock_irq(&truth->lock);
	for (ring = 0; ring < RINGS; ring++)
		at += show_work(page, at, "device", 0, ring, &truth->rings[ring]);
	for (tag = 0; tag < truth->known; tag++)
		for (ring = 0; ring < RINGS; ring++)
			at += show_work(page, at, "tag", truth->tags[tag].tag, ring, &truth->tags[tag].rings[ring]);
	if (truth->untold)
		at += sysfs_emit_at(page, at, "untold %llu\n", truth->untold);
	spin_unlock_irq(&truth->lock);
	return at;
}

// Whatever is written, counting begins anew.
static ssize_t truth_store(struct device *dev, struct device_attribute *attr, const char *text, size_t size)
{
	struct testgpu *gpu = dev_get_drvdata(dev);
	struct testgpu_truth *truth = &gpu->truth;

	spin_lock_irq(&truth->lock);
	memset(truth->rings, 0, sizeof(truth->rings));
	memset(truth->tags, 0, sizeof(truth->tags));
	truth->known = 0;
	truth->untold = 0;
	spin_unlock_irq(&truth->lock);
	return size;
}
static DEVICE_ATTR_RW(truth);

// Named as amdgpu names them.
static ssize_t mem_info_vram_total_show(struct device *dev, struct device_attribute *attr, char *page)
{
	struct testgpu *gpu = dev_get_drvdata(dev);

	return sysfs_emit(page, "%llu\n", gpu->memory_size);
}
static DEVICE_ATTR_RO(mem_info_vram_total);

static ssize_t mem_info_vram_used_show(struct device *dev, struct device_attribute *attr, char *page)
{
	struct testgpu *gpu = dev_get_drvdata(dev);

	return sysfs_emit(page, "%lld\n", atomic64_read(&gpu->memory_used));
}
static DEVICE_ATTR_RO(mem_info_vram_used);

static struct attribute *testgpu_attrs[] = {
	&dev_attr_truth.attr,
	&dev_attr_mem_info_vram_total.attr,
	&dev_attr_mem_info_vram_used.attr,
	NULL,
};

static const struct attribute_group testgpu_group = {.attrs = testgpu_attrs};

const struct attribute_group *testgpu_groups[] = {&testgpu_group, NULL};
