// SPDX-License-Identifier: Apache-2.0
// Work whose amount is known: for a test GPU, for processors, for a disk.
#include "probe.h"

#include "../module/spur_testgpu.h"

#include <linux/sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>

// What one short process writes and reads, and how many of those a disk must hold.
#define BLOCK 4096
#define BLOCKS 4096

// Longest that queued work may take, in milliseconds.
#define WAIT_MS 120000

static int say_failed(const char *what)
{
	printf("%s %s\n", what, strerrorname_np(errno));
	fflush(stdout);
	return 1;
}

static int submit(int fd, const char *words)
{
	struct spur_testgpu_submit args = {0};
	unsigned long long tag;
	char ring[16];

	if (sscanf(words, "%llu:%15[a-z]:%u:%u", &tag, ring, &args.duration_us, &args.count) != 4) {
		errno = EINVAL;
		return -1;
	}
	args.tag = tag;
	args.ring = strcmp(ring, "copy") == 0 ? SPUR_TESTGPU_COPY : SPUR_TESTGPU_COMPUTE;
	return ioctl(fd, DRM_IOCTL_TESTGPU_SUBMIT, &args);
}

static int set_memory(int fd, const char *words)
{
	unsigned long long total, resident;

	if (sscanf(words, "%llu:%llu", &total, &resident) != 2) {
		errno = EINVAL;
		return -1;
	}
	struct spur_testgpu_memory args = {.total = total, .resident = resident};
	return ioctl(fd, DRM_IOCTL_TESTGPU_MEMORY, &args);
}

static int show_fdinfo(int fd)
{
	char path[64], line[256];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, "drm-", 4) == 0)
			fputs(line, stdout);
	fflush(stdout);
	return file ? fclose(file) : -1;
}

static int enter_group(const char *dir)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	int result = write(fd, "0", 1) == 1 ? 0 : -1;
	close(fd);
	return result;
}

// Returns in the child only; the parent ends as the child does.
static int become_child(void)
{
	pid_t child = fork();
	int status;

	if (child <= 0)
		return child;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 70);
}

static int step(int fd, const char *word)
{
	struct spur_testgpu_wait patience = {.timeout_ms = WAIT_MS};

#define STEP(name) (strncmp(word, name, sizeof(name) - 1) == 0)
	if (STEP("submit:"))
		return submit(fd, word + 7);
	if (STEP("wait"))
		return ioctl(fd, DRM_IOCTL_TESTGPU_WAIT, &patience);
	if (STEP("memory:"))
		return set_memory(fd, word + 7);
	if (STEP("fdinfo"))
		return show_fdinfo(fd);
	if (STEP("group:"))
		return enter_group(word + 6);
	if (STEP("child"))
		return become_child();
	if (STEP("say:"))
		return puts(word + 4) < 0 || fflush(stdout) ? -1 : 0;
	if (STEP("until:")) {
		while (access(word + 6, F_OK) < 0)
			usleep(5000);
		return 0;
	}
	errno = EINVAL;
	return -1;
}

int gpu_work(const char *path, char **steps)
{
	int fd = strncmp(path, "from:", 5) == 0 ? take_one(path + 5) : open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return say_failed(path);
	for (; *steps; steps++)
		if (step(fd, *steps) < 0)
			return say_failed(*steps);
	return 0;
}

// Computes until this process has had so much of a processor.
static void compute(long micros)
{
	struct timespec now;

	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	while (now.tv_sec * 1000000 + now.tv_nsec / 1000 < micros);
}

// One block past the page cache, at a place of its own: the memory is aligned as O_DIRECT demands.
static int one_block(int fd, long number, int writing)
{
	static char block[BLOCK] __attribute__((aligned(BLOCK)));
	off_t at = (off_t)(number % BLOCKS) * BLOCK;

	block[0] = (char)number;
	return (writing ? pwrite(fd, block, BLOCK, at) : pread(fd, block, BLOCK, at)) == BLOCK ? 0 : -1;
}

static int short_life(long number, long micros, const char *disk)
{
	if (disk) {
		int fd = open(disk, O_RDWR | O_DIRECT | O_CLOEXEC);
		if (fd < 0 || one_block(fd, number, 1) < 0 || one_block(fd, number, 0) < 0)
			return say_failed(disk);
	}
	compute(micros);
	return 0;
}

int spawn_many(long count, long micros, const char *disk)
{
	for (long i = 0; i < count; i++) {
		pid_t child = fork();
		int status;

		if (child < 0)
			return say_failed("fork");
		if (child == 0)
			_exit(short_life(i, micros, disk));
		while (waitpid(child, &status, 0) < 0)
			if (errno != EINTR)
				return say_failed("wait");
		if (status != 0)
			return 1;
	}
	printf("spawned %ld\n", count);
	return 0;
}

int run_in(const char *group, char **argv)
{
	int dir = open(group, O_DIRECTORY | O_CLOEXEC), status;
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)dir};

	if (dir < 0)
		return say_failed(group);
	pid_t child = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (child < 0)
		return say_failed("clone3");
	if (child == 0) {
		execv("/proc/self/exe", argv);
		_exit(say_failed("exec"));
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return say_failed("wait");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 70;
}
