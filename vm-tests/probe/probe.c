// SPDX-License-Identifier: Apache-2.0
// A hostile program: tries to reach devices in every way that an unprivileged (or a privileged) process has, and reports what
// the kernel said. C and statically linked, so that nothing of a language's runtime runs before its first act, and so that
// raw kernel interfaces need no library in the guest.
//
//   probe first PATH        open PATH before anything else; exit status 0 only if that was refused with EPERM
//   probe scan DIR PATH...  every way, for each PATH; DIR is a folder for new links and nodes; one line each: PATH WAY OUTCOME
//   probe drm PATH          open PATH and ask the driver for its name
//   probe flood PATH N      N opens; prints how many were refused with EPERM
//   probe linger PATH       double-fork, setsid, ignore every signal that can be ignored, try PATH for ever; prints its pid
//   probe holdmem MIB       touch that much memory, then say so
//   probe forks N           try to have N children at once; prints how many there were
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *path, const char *way, int result, int error)
{
	const char *name = result >= 0 ? "OPENED" : strerrorname_np(error);
	printf("%s %s %s\n", path, way, name ? name : "?");
	fflush(stdout);
}

static void try_open(const char *path, const char *shown, const char *way, int flags)
{
	int fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	say(shown, way, fd, errno);
	if (fd >= 0)
		close(fd);
}

static void reopen(const char *path)
{
	char self[64];
	int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0) {
		say(path, "procfd", -1, errno);
		return;
	}
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	try_open(self, path, "procfd", O_RDWR);
	close(fd);
}

// One openat through io_uring, with the smallest ring there is.
static void by_ring(const char *path)
{
	struct io_uring_params params = {0};
	int ring = (int)syscall(SYS_io_uring_setup, 1, &params);
	if (ring < 0) {
		printf("%s uring NORING\n", path);
		fflush(stdout);
		return;
	}
	size_t sq_len = params.sq_off.array + params.sq_entries * sizeof(unsigned);
	size_t cq_len = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	char *sq = mmap(NULL, sq_len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	char *cq = mmap(NULL, cq_len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
	struct io_uring_sqe *sqe = mmap(NULL, sizeof(*sqe) * params.sq_entries, PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || (void *)sqe == MAP_FAILED) {
		printf("%s uring NORING\n", path);
		exit(1);
	}
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_OPENAT;
	sqe->fd = AT_FDCWD;
	sqe->addr = (uint64_t)(uintptr_t)path;
	sqe->open_flags = O_RDWR | O_NONBLOCK | O_CLOEXEC;
	((unsigned *)(sq + params.sq_off.array))[0] = 0;
	__atomic_store_n((unsigned *)(sq + params.sq_off.tail), 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0) {
		say(path, "uring", -1, errno);
	} else {
		struct io_uring_cqe *cqe = (struct io_uring_cqe *)(cq + params.cq_off.cqes);
		say(path, "uring", cqe->res, -cqe->res);
	}
	munmap(sqe, sizeof(*sqe) * params.sq_entries);
	munmap(sq, sq_len);
	munmap(cq, cq_len);
	close(ring);
}

static void new_names(const char *dir, const char *path, const struct stat *st)
{
	char name[4096];
	snprintf(name, sizeof(name), "%s/hard.%d", dir, getpid());
	if (link(path, name) < 0)
		say(path, "make-link", -1, errno);
	else
		try_open(name, path, "hardlink", O_RDWR);
	unlink(name);
	snprintf(name, sizeof(name), "%s/soft.%d", dir, getpid());
	if (symlink(path, name) < 0)
		say(path, "make-symlink", -1, errno);
	else
		try_open(name, path, "symlink", O_RDWR);
	unlink(name);
	snprintf(name, sizeof(name), "%s/node.%d", dir, getpid());
	if (mknod(name, S_IFCHR | 0666, st->st_rdev) < 0)
		say(path, "make-node", -1, errno);
	else
		try_open(name, path, "mknod", O_RDWR);
	unlink(name);
}

// As the root of a namespace of our own.
static void in_namespace(const char *dir, const char *path, const struct stat *st)
{
	pid_t child = fork();
	if (child == 0) {
		char name[4096];
		if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
			say(path, "make-userns", -1, errno);
			_exit(0);
		}
		try_open(path, path, "userns", O_RDWR);
		snprintf(name, sizeof(name), "%s/userns.%d", dir, getpid());
		if (mknod(name, S_IFCHR | 0666, st->st_rdev) < 0)
			say(path, "make-node-userns", -1, errno);
		else
			try_open(name, path, "mknod-userns", O_RDWR);
		unlink(name);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

// Where the cgroup2 tree is mounted.
static int cgroup_folder(char *out, size_t size)
{
	char line[4096], own[2048] = "", mount[2048] = "";
	FILE *file = fopen("/proc/self/cgroup", "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "0::%2047s", own) == 1)
			break;
	if (file)
		fclose(file);
	file = fopen("/proc/self/mounts", "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%*s %2047s cgroup2", mount) == 1 && strstr(line, " cgroup2 "))
			break;
		else
			mount[0] = 0;
	if (file)
		fclose(file);
	return own[0] && mount[0] && snprintf(out, size, "%s%s", mount, own) < (int)size ? 0 : -1;
}

// Writes our pid into a cgroup; 0, or -1 with errno.
static int move_to(const char *folder)
{
	char name[8192];
	snprintf(name, sizeof(name), "%s/cgroup.procs", folder);
	int fd = open(name, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	int result = write(fd, "0", 1) == 1 ? 0 : -1, error = errno;
	close(fd);
	errno = error;
	return result;
}

// Leaving by the parent, and hiding in a child.
static void in_cgroups(const char *path)
{
	pid_t child = fork();
	if (child == 0) {
		char own[4096], other[4200];
		if (cgroup_folder(own, sizeof(own)) < 0)
			_exit(0);
		for (int up = 1; up <= 4; up++) {
			snprintf(other, sizeof(other), "%s%s", own, &"/../../../.."[12 - 3 * up]);
			if (move_to(other) < 0)
				say(path, "make-move", -1, errno);
			else
				try_open(path, path, "moved", O_RDWR);
		}
		snprintf(other, sizeof(other), "%s/probe-child", own);
		if (mkdir(other, 0755) < 0) {
			say(path, "make-cgroup", -1, errno);
			_exit(0);
		}
		if (move_to(other) < 0)
			say(path, "make-join", -1, errno);
		else
			try_open(path, path, "nested", O_RDWR);
		move_to(own);
		rmdir(other);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void orphan(const char *path)
{
	pid_t child = fork();
	if (child == 0) {
		setsid();
		pid_t grandchild = fork();
		if (grandchild == 0) {
			try_open(path, path, "orphan", O_RDWR);
			_exit(0);
		}
		waitpid(grandchild, NULL, 0);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void watch(const char *path)
{
	int fd = inotify_init1(IN_CLOEXEC);
	if (fd < 0)
		return;
	int id = inotify_add_watch(fd, path, IN_OPEN);
	printf("%s watch %s\n", path, id >= 0 ? "WATCHED" : strerrorname_np(errno));
	fflush(stdout);
	close(fd);
}

static int scan(const char *dir, char **paths)
{
	for (; *paths; paths++) {
		struct stat st;
		if (stat(*paths, &st) < 0) {
			say(*paths, "make-stat", -1, errno);
			continue;
		}
		try_open(*paths, *paths, "read", O_RDONLY);
		try_open(*paths, *paths, "write", O_WRONLY);
		try_open(*paths, *paths, "both", O_RDWR);
		try_open(*paths, *paths, "three", O_ACCMODE);
		reopen(*paths);
		by_ring(*paths);
		watch(*paths);
		new_names(dir, *paths, &st);
		in_namespace(dir, *paths, &st);
		orphan(*paths);
		in_cgroups(*paths);
	}
	return 0;
}

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

static int drm(const char *path)
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

static int flood(const char *path, long count)
{
	long refused = 0;
	for (long i = 0; i < count; i++) {
		int fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0)
			close(fd);
		else if (errno == EPERM)
			refused++;
	}
	printf("refused %ld of %ld\n", refused, count);
	return refused == count ? 0 : 1;
}

static int linger(const char *path)
{
	if (fork() != 0)
		pause();
	setsid();
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_IGN);
	if (fork() != 0)
		_exit(0);
	printf("pid %d\n", getpid());
	fflush(stdout);
	for (;;) {
		int fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0)
			close(fd);
		usleep(10000);
	}
}

static int hold_memory(size_t mib)
{
	char *memory = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 1;
	for (size_t at = 0; at < mib << 20; at += 4096)
		memory[at] = 1;
	printf("held %zu MiB\n", mib);
	return 0;
}

static int forks(long wanted)
{
	long made = 0;
	int hold[2];
	char byte;
	if (pipe(hold) < 0)
		return 1;
	for (; made < wanted; made++) {
		pid_t child = fork();
		if (child == 0) {
			// Until the parent's end is closed.
			close(hold[1]);
			_exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
		}
		if (child < 0)
			break;
	}
	printf("children %ld\n", made);
	fflush(stdout);
	close(hold[1]);
	while (wait(NULL) > 0)
		;
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && argv[1][0] == 'f' && argv[1][1] == 'i') {
		int fd = open(argv[2], O_RDWR | O_CLOEXEC);
		return fd < 0 && errno == EPERM ? 0 : 77;
	}
	if (argc >= 4 && strcmp(argv[1], "scan") == 0)
		return scan(argv[2], argv + 3);
	if (argc == 3 && strcmp(argv[1], "drm") == 0)
		return drm(argv[2]);
	if (argc == 4 && strcmp(argv[1], "flood") == 0)
		return flood(argv[2], atol(argv[3]));
	if (argc == 3 && strcmp(argv[1], "linger") == 0)
		return linger(argv[2]);
	if (argc == 3 && strcmp(argv[1], "holdmem") == 0)
		return hold_memory((size_t)atol(argv[2]));
	if (argc == 3 && strcmp(argv[1], "forks") == 0)
		return forks(atol(argv[2]));
	fprintf(stderr, "usage: see the head of probe.c\n");
	return 64;
}
