// SPDX-License-Identifier: GPL-2.0-only
// The module: platform devices, each with one DRM device.
#include "testgpu.h"

#include <linux/module.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_ioctl.h>

#define DEVICES_MAX 16
#define DEPTH_MAX 64

static unsigned int devices = 2;
module_param(devices, uint, 0444);
MODULE_PARM_DESC(devices, "GPUs, up to 16");

static unsigned int depth = 4;
module_param(depth, uint, 0444);
MODULE_PARM_DESC(depth, "jobs that the copy ring is handed ahead, up to 64");

static unsigned int memory_mib = 1024;
module_param(memory_mib, uint, 0444);
MODULE_PARM_DESC(memory_mib, "memory that each GPU says it has");

static const struct drm_ioctl_desc ioctls[] = {
	DRM_IOCTL_DEF_DRV(TESTGPU_SUBMIT, testgpu_submit, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(TESTGPU_WAIT, testgpu_wait, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(TESTGPU_MEMORY, testgpu_memory, DRM_RENDER_ALLOW),
};

static const struct file_operations fops = {
	.owner = THIS_MODULE,
	.open = drm_open,
	.release = drm_release,
	.unlocked_ioctl = drm_ioctl,
	.compat_ioctl = drm_compat_ioctl,
	.poll = drm_poll,
	.read = drm_read,
	.llseek = noop_llseek,
	.show_fdinfo = testgpu_show_fdinfo,
#ifdef FOP_UNSIGNED_OFFSET
	.fop_flags = FOP_UNSIGNED_OFFSET,
#endif
};

static const struct drm_driver drm_driver = {
	.driver_features = DRIVER_RENDER,
	.open = testgpu_open,
	.postclose = testgpu_close,
	.ioctls = ioctls,
	.num_ioctls = ARRAY_SIZE(ioctls),
	.fops = &fops,
	.name = "spur_testgpu",
	.desc = "GPU that takes time",
#ifdef HAVE_DRIVER_DATE
	.date = "20261130",
#endif
	.major = 1,
};

static int testgpu_probe(struct platform_device *pdev)
{
	struct testgpu *gpu = devm_drm_dev_alloc(&pdev->dev, &drm_driver, struct testgpu, drm);
	unsigned int ring;
	int error;

	if (IS_ERR(gpu))
		return PTR_ERR(gpu);
	gpu->memory_size = (u64)memory_mib << 20;
	testgpu_truth_init(&gpu->truth);
	platform_set_drvdata(pdev, gpu);
	for (ring = 0; ring < RINGS; ring++) {
		error = testgpu_ring_init(gpu, ring, ring == SPUR_TESTGPU_COPY ? depth : 1);
		if (error)
			goto undo;
	}
	error = drm_dev_register(&gpu->drm, 0);
	if (error)
		goto undo;
	return 0;
undo:
	while (ring--)
		testgpu_ring_fini(&gpu->rings[ring]);
	return error;
}

static TESTGPU_REMOVE_TYPE testgpu_remove(struct platform_device *pdev)
{
	struct testgpu *gpu = platform_get_drvdata(pdev);
	unsigned int ring;

	drm_dev_unplug(&gpu->drm);
	for (ring = 0; ring < RINGS; ring++)
		testgpu_ring_fini(&gpu->rings[ring]);
	return TESTGPU_REMOVED;
}

static struct platform_driver testgpu_driver = {
	.probe = testgpu_probe,
	.remove = testgpu_remove,
	.driver = {
		.name = "spur_testgpu",
		.dev_groups = testgpu_groups,
		// Taken from its driver by hand while somebody has it open, it would go under its clients.
		.suppress_bind_attrs = true,
	},
};

static struct platform_device *registered[DEVICES_MAX];

static void unregister(unsigned int count)
{
	while (count--)
		platform_device_unregister(registered[count]);
	platform_driver_unregister(&testgpu_driver);
}

static int __init testgpu_module_init(void)
{
	unsigned int number;
	int error;

	if (devices == 0 || devices > DEVICES_MAX || depth == 0 || depth > DEPTH_MAX)
		return -EINVAL;
	error = platform_driver_register(&testgpu_driver);
	if (error)
		return error;
	for (number = 0; number < devices; number++) {
		registered[number] = platform_device_register_simple("spur_testgpu", number, NULL, 0);
		if (IS_ERR(registered[number])) {
			error = PTR_ERR(registered[number]);
			unregister(number);
			return error;
		}
	}
	return 0;
}

static void __exit testgpu_module_exit(void)
{
	unregister(devices);
}

module_init(testgpu_module_init);
module_exit(testgpu_module_exit);
MODULE_AUTHOR("the spur project");
MODULE_DESCRIPTION("GPU for tests: real to the kernel, does nothing but take time");
MODULE_LICENSE("GPL");
