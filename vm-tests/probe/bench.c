// SPDX-License-Identifier: Apache-2.0
// What an open, an ioctl and a mapping cost. By the wall clock: an emulated machine counts processor time in ticks.
#include "probe.h"

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>

// Batches; the least of them counts, for a busy machine only ever adds.
#define BATCHES 100

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void one_open(const char *path, int fd)
{
	(void)fd;
	close(open(path, O_RDWR | O_CLOEXEC));
}

// A request that no driver knows: the way to the driver and back is what is measured.
static void one_ioctl(const char *path, int fd)
{
	(void)path;
	ioctl(fd, _IO('d', 0xff), 0);
}

static void one_map(const char *path, int fd)
{
	(void)path;
	void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED)
		munmap(at, 4096);
}

static void measure(const char *name, void (*act)(const char *, int), const char *path, int fd, long count)
{
	double least = 1e18;
	for (int batch = 0; batch < BATCHES; batch++) {
		double start = now();
		for (long i = 0; i < count; i++)
			act(path, fd);
		double each = (now() - start) / (double)count;
		least = each < least ? each : least;
	}
	printf("bench %s %.0f\n", name, least);
	fflush(stdout);
}

int bench(const char *path, long count)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		tell(path, "bench", "OPENED", -1);
		return 1;
	}
	measure("open", one_open, path, fd, count);
	measure("ioctl", one_ioctl, path, fd, count);
	measure("mmap", one_map, path, fd, count);
	return 0;
}
