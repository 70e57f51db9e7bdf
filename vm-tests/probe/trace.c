// SPDX-License-Identifier: Apache-2.0
// Reaching into another process.
#include "probe.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

// A mapped address of that process, from its own list if we may read it.
static unsigned long some_address(pid_t pid)
{
	char path[64];
	unsigned long start = 0x400000;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	tell("process", "maps", "READ", maps && fscanf(maps, "%lx", &start) == 1 ? 0 : -1);
	if (maps)
		fclose(maps);
	return start;
}

int trace(pid_t pid)
{
	char path[64], byte;
	unsigned long address = some_address(pid);

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	int memory = open(path, O_RDWR | O_CLOEXEC);
	tell("process", "mem", "READ", memory < 0 ? -1 : (int)pread(memory, &byte, 1, (off_t)address) - 1);
	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	int environ_fd = open(path, O_RDONLY | O_CLOEXEC);
	tell("process", "environ", "READ", environ_fd < 0 ? -1 : (int)read(environ_fd, &byte, 1));
	struct iovec here = {.iov_base = &byte, .iov_len = 1}, there = {.iov_base = (void *)address, .iov_len = 1};
	tell("process", "readv", "READ", (int)process_vm_readv(pid, &here, 1, &there, 1, 0));
	tell("process", "writev", "WROTE", (int)process_vm_writev(pid, &here, 0, &there, 0, 0));
	long seized = ptrace(PTRACE_SEIZE, pid, 0, 0);
	tell("process", "seize", "TRACED", seized < 0 ? -1 : 0);
	if (seized == 0) {
		ptrace(PTRACE_INTERRUPT, pid, 0, 0);
		waitpid(pid, NULL, __WALL);
		ptrace(PTRACE_DETACH, pid, 0, 0);
	}
	long attached = ptrace(PTRACE_ATTACH, pid, 0, 0);
	tell("process", "attach", "TRACED", attached < 0 ? -1 : 0);
	if (attached == 0) {
		waitpid(pid, NULL, __WALL);
		ptrace(PTRACE_DETACH, pid, 0, 0);
	}
	return 0;
}

int strike(pid_t pid)
{
	tell("process", "signal", "SENT", kill(pid, SIGCONT));
	return 0;
}
