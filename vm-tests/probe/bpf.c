// SPDX-License-Identifier: Apache-2.0
// Taking the fence down by bpf(2) and by its pins, and a fence of our own beside it.
#include "probe.h"

#include <linux/bpf.h>
#include <sys/resource.h>

// Identifiers of links, maps and programs that are looked at.
#define IDS_MAX 1024

static int call(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

// Descriptors of everything of a kind, as root tools find it. The first error is what counts.
static void by_id(const char *what, int next, int get, int detach)
{
	union bpf_attr attr;
	unsigned id = 0;

	for (int seen = 0; seen < IDS_MAX; seen++) {
		memset(&attr, 0, sizeof(attr));
		attr.start_id = id;
		if (call(next, &attr) < 0) {
			if (seen == 0)
				tell(what, "list", "LISTED", -1);
			return;
		}
		id = attr.next_id;
		memset(&attr, 0, sizeof(attr));
		attr.start_id = id;
		int fd = call(get, &attr);
		tell(what, "open", "GOT", fd);
		if (fd < 0)
			return;
		if (detach) {
			memset(&attr, 0, sizeof(attr));
			attr.link_detach.link_fd = (unsigned)fd;
			tell(what, "detach", "DETACHED", call(BPF_LINK_DETACH, &attr));
		}
		close(fd);
	}
}

// A program of one instruction pair that lets everything through.
int load_program(void)
{
	struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT},
	};
	struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	union bpf_attr attr = {0};

	// Before Linux 5.11 programs count as locked memory.
	setrlimit(RLIMIT_MEMLOCK, &all);
	attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	attr.insns = (uint64_t)(uintptr_t)code;
	attr.insn_cnt = 2;
	attr.license = (uint64_t)(uintptr_t)"GPL";
	int program = call(BPF_PROG_LOAD, &attr);
	tell("program", "load", "LOADED", program);
	return program;
}

// Such a program on our own group.
static void beside(void)
{
	union bpf_attr attr = {0};
	char own[4096];
	int program = load_program();

	if (program < 0 || cgroup_folder(own, sizeof(own)) < 0)
		return;
	int group = open(own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	attr.target_fd = (unsigned)group;
	attr.attach_bpf_fd = (unsigned)program;
	attr.attach_type = BPF_CGROUP_DEVICE;
	tell("program", "attach", "ATTACHED", call(BPF_PROG_ATTACH, &attr));
}

// As root outside: every link that can be detached is.
int detach_all(void)
{
	by_id("link", BPF_LINK_GET_NEXT_ID, BPF_LINK_GET_FD_BY_ID, 1);
	return 0;
}

// One line for each program of the machine.
int list_programs(void)
{
	by_id("program", BPF_PROG_GET_NEXT_ID, BPF_PROG_GET_FD_BY_ID, 0);
	return 0;
}

int bpf_attempts(const char *pins)
{
	union bpf_attr attr;
	char path[4096];

	by_id("link", BPF_LINK_GET_NEXT_ID, BPF_LINK_GET_FD_BY_ID, 1);
	by_id("map", BPF_MAP_GET_NEXT_ID, BPF_MAP_GET_FD_BY_ID, 0);
	by_id("program", BPF_PROG_GET_NEXT_ID, BPF_PROG_GET_FD_BY_ID, 0);
	beside();
	for (const char *rest = pins; *rest;) {
		size_t size = strcspn(rest, ",");
		snprintf(path, sizeof(path), "%.*s", (int)size, rest);
		memset(&attr, 0, sizeof(attr));
		attr.pathname = (uint64_t)(uintptr_t)path;
		tell("pin", "get", "GOT", call(BPF_OBJ_GET, &attr));
		rest += size + (rest[size] == ',');
	}
	return 0;
}
