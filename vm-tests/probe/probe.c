// SPDX-License-Identifier: Apache-2.0
// A hostile program: tries to reach devices in every way that an unprivileged (or a privileged) process has, alone or with an
// accomplice, and reports what the kernel said. C and statically linked, so that nothing of a language's runtime runs before
// its first act, and so that raw kernel interfaces need no library in the guest.
//
//   probe first PATH          open PATH before anything else; exit status 0 only if that was refused with EPERM
//   probe firsts PATH N       the same in N processes, one after the other
//   probe scan DIR PATH...    every way that one process has, for each PATH; DIR is a folder for new links and nodes
//   probe devices PATH...     a plain open of each
//   probe drm PATH            open PATH and ask the driver for its name
//   probe hold NAME PATH...   open each PATH (buffer:PATH: export a dma-buf of it), print pid and descriptors, and hand them to
//                             whoever connects to the abstract socket NAME
//   probe take NAME           connect, take what comes, and use it
//   probe keep NAME           the same, and never close it
//   probe steal PID FD NAME   the same descriptor by pidfd_getfd and through /proc
//   probe inherited           which descriptors this process was started with
//   probe trace PID           attach to a process and read its memory, in every way
//   probe strike PID          send it a signal that does nothing
//   probe sqpoll PATH         open PATH through a ring whose polling thread is the kernel's
//   probe raw PATH...         open each for writing, and map it
//   probe mounts DIR PATH     PATH by mounts of a namespace of our own
//   probe bpf PINS            take the fence down by bpf(2), and by its pins
//   probe load                load a program that does no harm
//   probe programs            one line for each BPF program of the machine
//   probe detach              detach every BPF link of the machine
//   probe work PATH STOP      ioctl and mmap on PATH, over and over, until the file STOP is there; one line for each change
//   probe flood PATH N        N opens; prints how many were refused with EPERM
//   probe linger PATH         double-fork, setsid, ignore every signal that can be ignored, try PATH for ever; prints its pid
//   probe holdmem MIB         touch that much memory, then say so
//   probe forks N             try to have N children at once; prints how many there were
//   probe cuse NAME MAJ MIN   serve a character device /dev/NAME that opens and answers (CUSE)
//   probe bench PATH N        nanoseconds of an open, an ioctl and a mapping
//   probe gpu PATH STEP...    work for a test GPU (vm-tests/module); PATH may be from:NAME: take the descriptor of a holder. Steps:
//     submit:TAG:RING:US:N    queue N jobs of US microseconds each
//     wait                    until all that was queued is done
//     memory:TOTAL:RESIDENT   say that we use so many bytes
//     fdinfo                  print what the kernel says of the client
//     group:DIR               go into this control group
//     child                   the rest is done by a child
//     say:WORD                print it
//     until:FILE              wait until that file is there
//   probe spawn N US [DISK]   N processes, one after the other, each of which writes and reads one block of that disk and computes
//                             for US microseconds
//   probe in GROUP VERB...    the same program again, born in that control group
#include "probe.h"

#define VERB(name, count) (strcmp(argv[1], name) == 0 && argc >= 2 + (count))

// The verbs that load the machine.
static int run_load(int argc, char **argv)
{
	if (VERB("firsts", 2))
		return first_acts(argv[2], atol(argv[3]));
	if (VERB("flood", 2))
		return flood(argv[2], atol(argv[3]));
	if (VERB("linger", 1))
		return linger(argv[2]);
	if (VERB("holdmem", 1))
		return hold_memory((size_t)atol(argv[2]));
	if (VERB("forks", 1))
		return forks(atol(argv[2]));
	if (VERB("bench", 2))
		return bench(argv[2], atol(argv[3]));
	if (VERB("gpu", 2))
		return gpu_work(argv[2], argv + 3);
	if (VERB("spawn", 2))
		return spawn_many(atol(argv[2]), atol(argv[3]), argv[4]);
	if (VERB("in", 2)) {
		const char *group = argv[2];
		argv[2] = argv[0];
		return run_in(group, argv + 2);
	}
	fprintf(stderr, "usage: see the head of probe.c\n");
	return 64;
}

static int run(int argc, char **argv)
{
	if (VERB("scan", 2))
		return scan(argv[2], argv + 3);
	if (VERB("devices", 1))
		return devices(argv + 2);
	if (VERB("drm", 1))
		return drm(argv[2]);
	if (VERB("hold", 2))
		return hold(argv[2], argv + 3);
	if (VERB("take", 1))
		return take(argv[2], 0);
	if (VERB("keep", 1))
		return take(argv[2], 1);
	if (VERB("steal", 3))
		return steal(atoi(argv[2]), atoi(argv[3]), argv[4]);
	if (VERB("inherited", 0))
		return inherited();
	if (VERB("trace", 1))
		return trace(atoi(argv[2]));
	if (VERB("strike", 1))
		return strike(atoi(argv[2]));
	if (VERB("sqpoll", 1))
		return poll_thread(argv[2]);
	if (VERB("raw", 1))
		return raw(argv + 2);
	if (VERB("mounts", 2))
		return mounts(argv[2], argv[3]);
	if (VERB("bpf", 1))
		return bpf_attempts(argv[2]);
	if (VERB("load", 0))
		return load_program() < 0;
	if (VERB("detach", 0))
		return detach_all();
	if (VERB("programs", 0))
		return list_programs();
	if (VERB("work", 2))
		return work(argv[2], argv[3]);
	if (VERB("cuse", 3))
		return serve_device(argv[2], (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4]));
	return run_load(argc, argv);
}

int main(int argc, char **argv)
{
	if (argc == 3 && argv[1][0] == 'f' && argv[1][1] == 'i' && argv[1][5] == 0) {
		int fd = open(argv[2], O_RDWR | O_CLOEXEC);
		return fd < 0 && errno == EPERM ? 0 : 77;
	}
	return argc < 2 ? 64 : run(argc, argv);
}
