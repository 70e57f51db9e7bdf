// SPDX-License-Identifier: Apache-2.0
// Opens through io_uring.
#include "probe.h"

#include <linux/io_uring.h>
#include <sys/mman.h>

static void *map_ring(int ring, size_t size, off_t what)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);
}

// One openat through a ring of one entry, and its outcome.
static void submit_open(int ring, const struct io_uring_params *params, const char *path, const char *way)
{
	size_t sq_len = params->sq_off.array + params->sq_entries * sizeof(unsigned);
	size_t cq_len = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
	char *sq = map_ring(ring, sq_len, IORING_OFF_SQ_RING), *cq = map_ring(ring, cq_len, IORING_OFF_CQ_RING);
	struct io_uring_sqe *sqe = map_ring(ring, sizeof(*sqe) * params->sq_entries, IORING_OFF_SQES);
	unsigned flags = IORING_ENTER_GETEVENTS;

	if (sq == MAP_FAILED || cq == MAP_FAILED || (void *)sqe == MAP_FAILED) {
		printf("%s %s NORING\n", path, way);
		exit(1);
	}
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_OPENAT;
	sqe->fd = AT_FDCWD;
	sqe->addr = (uint64_t)(uintptr_t)path;
	sqe->open_flags = O_RDWR | O_NONBLOCK | O_CLOEXEC;
	((unsigned *)(sq + params->sq_off.array))[0] = 0;
	__atomic_store_n((unsigned *)(sq + params->sq_off.tail), 1, __ATOMIC_RELEASE);
	if (params->flags & IORING_SETUP_SQPOLL)
		flags |= IORING_ENTER_SQ_WAKEUP;
	if (syscall(SYS_io_uring_enter, ring, 1, 1, flags, NULL, 0) < 0) {
		say(path, way, -1, errno);
	} else {
		struct io_uring_cqe *cqe = (struct io_uring_cqe *)(cq + params->cq_off.cqes);
		say(path, way, cqe->res, -cqe->res);
	}
	munmap(sqe, sizeof(*sqe) * params->sq_entries);
	munmap(sq, sq_len);
	munmap(cq, cq_len);
}

// By a ring that works as we call it.
void by_ring(const char *path)
{
	struct io_uring_params params = {0};
	int ring = (int)syscall(SYS_io_uring_setup, 1, &params);
	if (ring < 0) {
		printf("%s uring NORING\n", path);
		fflush(stdout);
		return;
	}
	submit_open(ring, &params, path, "uring");
	close(ring);
}

// Opens by the kernel's polling thread of a ring of our own: its opens are ours only if the kernel says so.
int poll_thread(const char *path)
{
	struct io_uring_params params = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 1000};
	int ring = (int)syscall(SYS_io_uring_setup, 1, &params);
	if (ring < 0) {
		tell(path, "make-sqpoll", "MADE", -1);
		return 0;
	}
	submit_open(ring, &params, path, "sqpoll");
	close(ring);
	return 0;
}
