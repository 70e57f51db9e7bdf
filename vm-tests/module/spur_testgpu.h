/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What programs say to the test GPU: the ioctls of its render node. */
#ifndef SPUR_TESTGPU_H
#define SPUR_TESTGPU_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Jobs are handed to this ring one at a time: the next when the last has ended. */
#define SPUR_TESTGPU_COMPUTE 0
/* Jobs are handed to this ring ahead, `depth` of them; it still executes one after the other. */
#define SPUR_TESTGPU_COPY 1
#define SPUR_TESTGPU_RINGS 2

/* Bounds of one submission. */
#define SPUR_TESTGPU_MAX_US 10000000
#define SPUR_TESTGPU_MAX_COUNT 4096

/* Queues `count` jobs, each of which keeps the ring busy for `duration_us`. */
struct spur_testgpu_submit {
	/* Whose work it is: the truth is kept by tag as well. */
	__u64 tag;
	__u32 ring;
	__u32 duration_us;
	__u32 count;
	__u32 flags;	/* 0 */
};

/* Waits until everything that this client has queued is done; ETIME when that takes longer. */
struct spur_testgpu_wait {
	__u32 timeout_ms;
	__u32 flags;	/* 0 */
};

/* Sets how many bytes this client is said to use; ENOSPC when the device has not as much. */
struct spur_testgpu_memory {
	__u64 total;
	__u64 resident;
};

/* 'd' and 0x40: DRM, and the first of its numbers that belong to drivers. */
#define DRM_IOCTL_TESTGPU_SUBMIT _IOW('d', 0x40, struct spur_testgpu_submit)
#define DRM_IOCTL_TESTGPU_WAIT _IOW('d', 0x41, struct spur_testgpu_wait)
#define DRM_IOCTL_TESTGPU_MEMORY _IOW('d', 0x42, struct spur_testgpu_memory)

#endif
