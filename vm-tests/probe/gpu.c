// SPDX-License-Identifier: Apache-2.0
// What can be done with a device that is open.
#include "probe.h"

#include <sys/ioctl.h>
#include <sys/mman.h>

// DRM_IOCTL_VERSION of the kernel's drm.h, declared here because its header is not everywhere.
struct drm_version {
	int major, minor, patch;
	size_t name_len;
	char *name;
	size_t date_len;
	char *date;
	size_t desc_len;
	char *desc;
};

int drm(const char *path)
{
	char name[64] = "";
	struct drm_version version = {.name_len = sizeof(name) - 1, .name = name};
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		printf("%s open %s\n", path, strerrorname_np(errno));
		return 1;
	}
	if (ioctl(fd, _IOWR('d', 0, struct drm_version), &version) < 0) {
		printf("%s version %s\n", path, strerrorname_np(errno));
		return 2;
	}
	printf("%s driver %s\n", path, name);
	return 0;
}


// DRM_IOCTL_VIRTGPU_RESOURCE_CREATE of virtgpu_drm.h.
struct virtgpu_resource {
	uint32_t target, format, bind, width, height, depth, array_size, last_level, nr_samples, flags;
	uint32_t handle, resource, size, stride;
};

// DRM_IOCTL_MODE_CREATE_DUMB of drm_mode.h: what a primary node can make.
struct drm_dumb {
	uint32_t height, width, bpp, flags, handle, pitch;
	uint64_t size;
};

// DRM_IOCTL_PRIME_HANDLE_TO_FD of drm.h.
struct drm_prime {
	uint32_t handle, flags;
	int32_t fd;
};

// A dma-buf of a new buffer of this device, or -1.
int export_buffer(int fd)
{
	// 2: a plain two-dimensional texture of 32-bit pixels.
	struct virtgpu_resource texture = {
		.target = 2, .format = 2, .bind = 2, .width = 64, .height = 64, .depth = 1, .array_size = 1};
	struct drm_dumb dumb = {.height = 64, .width = 64, .bpp = 32};
	struct drm_prime prime = {.flags = O_CLOEXEC | O_RDWR, .fd = -1};

	texture.size = 64 * 64 * 4;
	if (ioctl(fd, _IOWR('d', 0x44, struct virtgpu_resource), &texture) == 0)
		prime.handle = texture.handle;
	else if (ioctl(fd, _IOWR('d', 0xb2, struct drm_dumb), &dumb) == 0)
		prime.handle = dumb.handle;
	else
		return -1;
	return ioctl(fd, _IOWR('d', 0x2d, struct drm_prime), &prime) < 0 ? -1 : prime.fd;
}

// Something that every driver of the tests answers: DRM by its version, dma-buf by a sync, CUSE by what its server says.
static int ask(int fd)
{
	char name[64] = "";
	struct drm_version version = {.name_len = sizeof(name) - 1, .name = name};
	uint64_t sync = 1;
	if (ioctl(fd, _IOWR('d', 0, struct drm_version), &version) >= 0)
		return 0;
	if (errno == EPERM)
		return -1;
	return ioctl(fd, _IOW('b', 0, uint64_t), &sync);
}

// An ioctl and a mapping on a descriptor, however it came here.
int use(int fd, const char *name)
{
	tell(name, "ioctl", "ANSWERED", ask(fd));
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	tell(name, "mmap", "MAPPED", at == MAP_FAILED ? -1 : 0);
	if (at != MAP_FAILED)
		munmap(at, 4096);
	return 0;
}

int work(const char *path, const char *stop)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), last = -1;

	tell(path, "open", "OPENED", fd);
	while (fd >= 0 && access(stop, F_OK) < 0) {
		int error = ask(fd) < 0 ? errno : 0;
		if (error != last) {
			void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
			int mapped = at == MAP_FAILED ? errno : 0;
			printf("%s ioctl %s\n%s mmap %s\n", path, error ? strerrorname_np(error) : "ANSWERED", path,
			       mapped ? strerrorname_np(mapped) : "MAPPED");
			fflush(stdout);
			if (!mapped)
				munmap(at, 4096);
		}
		last = error;
		usleep(5000);
	}
	return 0;
}
