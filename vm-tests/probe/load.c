// SPDX-License-Identifier: Apache-2.0
// Many opens, and processes that stay or multiply.
#include "probe.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

int flood(const char *path, long count)
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

int linger(const char *path)
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

int hold_memory(size_t mib)
{
	char *memory = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 1;
	for (size_t at = 0; at < mib << 20; at += 4096)
		memory[at] = 1;
	printf("held %zu MiB\n", mib);
	return 0;
}

int forks(long wanted)
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


// The first act of many processes: each is new, and opens before it does anything else. They borrow our memory, as a fork of it
// would take longer than all the rest.
int first_acts(const char *path, long count)
{
	static volatile long done, refused;
	for (; done < count; done++) {
		int status;
		pid_t child = vfork();
		if (child == 0)
			_exit(open(path, O_RDWR | O_CLOEXEC) < 0 && errno == EPERM ? 0 : 77);
		if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
			refused++;
	}
	printf("refused %ld of %ld\n", refused, count);
	return refused == count ? 0 : 1;
}
