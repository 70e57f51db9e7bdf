// SPDX-License-Identifier: Apache-2.0
// A character device in user space (CUSE), with any number: it opens and answers, as a driver's would. Only what the tests use
// of the protocol in linux/fuse.h.
#include "probe.h"

#include <linux/fuse.h>
#include <sys/uio.h>

// What one request may be.
#define REQUEST_MAX (256 * 1024)

static int answer(int fd, uint64_t unique, int error, const void *data, size_t size)
{
	struct fuse_out_header head = {
		.len = (uint32_t)(sizeof(head) + size), .error = -error, .unique = unique};
	struct iovec parts[2] = {{&head, sizeof(head)}, {(void *)data, size}};
	return writev(fd, parts, size ? 2 : 1) < 0 ? -1 : 0;
}

static int answer_init(int fd, const struct fuse_in_header *in, const char *name, unsigned major, unsigned minor)
{
	char reply[sizeof(struct cuse_init_out) + 128] = {0};
	struct cuse_init_out *out = (struct cuse_init_out *)reply;
	const struct cuse_init_in *asked = (const struct cuse_init_in *)(in + 1);

	out->major = asked->major;
	out->minor = asked->minor;
	out->max_read = out->max_write = 4096;
	out->dev_major = major;
	out->dev_minor = minor;
	int size = snprintf(reply + sizeof(*out), 128, "DEVNAME=%s", name);
	return answer(fd, in->unique, 0, reply, sizeof(*out) + (size_t)size + 1);
}

static int serve_one(int fd, const struct fuse_in_header *in, const char *name, unsigned major, unsigned minor)
{
	struct fuse_open_out opened = {.fh = 1};
	struct fuse_ioctl_out done = {.result = 7};
	struct fuse_write_out written = {0};

	switch (in->opcode) {
	case CUSE_INIT:
		return answer_init(fd, in, name, major, minor);
	case FUSE_OPEN:
		return answer(fd, in->unique, 0, &opened, sizeof(opened));
	case FUSE_RELEASE:
	case FUSE_FLUSH:
	case FUSE_FSYNC:
		return answer(fd, in->unique, 0, NULL, 0);
	case FUSE_READ:
		return answer(fd, in->unique, 0, "spur", 4);
	case FUSE_WRITE:
		written.size = ((const struct fuse_write_in *)(in + 1))->size;
		return answer(fd, in->unique, 0, &written, sizeof(written));
	case FUSE_IOCTL:
		return answer(fd, in->unique, 0, &done, sizeof(done));
	case FUSE_INTERRUPT:
		return 0;
	default:
		return answer(fd, in->unique, ENOSYS, NULL, 0);
	}
}

int serve_device(const char *name, unsigned major, unsigned minor)
{
	char *request = malloc(REQUEST_MAX);
	int fd = open("/dev/cuse", O_RDWR | O_CLOEXEC);

	if (fd < 0 || !request) {
		tell(name, "cuse", "SERVES", -1);
		return 1;
	}
	for (;;) {
		ssize_t size = read(fd, request, REQUEST_MAX);
		if (size < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
			continue;
		if (size < (ssize_t)sizeof(struct fuse_in_header)) {
			tell(name, "cuse", "SERVES", -1);
			return 1;
		}
		if (serve_one(fd, (const struct fuse_in_header *)request, name, major, minor) < 0 && errno != ENOENT) {
			tell(name, "answer", "ANSWERED", -1);
			return 1;
		}
	}
}
