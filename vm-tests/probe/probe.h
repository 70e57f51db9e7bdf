// SPDX-License-Identifier: Apache-2.0
// What the parts of the hostile program share. Every line that it prints is `WHAT WAY OUTCOME`: the outcome is an error's name,
// or a word in capitals for what was reached.
#ifndef SPUR_PROBE_H
#define SPUR_PROBE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

// Most descriptors that a holder keeps.
#define HELD_MAX 8

// open.c
void say(const char *path, const char *way, int result, int error);
void tell(const char *what, const char *way, const char *good, int result);
void try_open(const char *path, const char *shown, const char *way, int flags);
int cgroup_folder(char *out, size_t size);
int scan(const char *dir, char **paths);
int devices(char **paths);

// ring.c
void by_ring(const char *path);
int poll_thread(const char *path);

// gpu.c
int drm(const char *path);
int export_buffer(int fd);
int use(int fd, const char *name);
int work(const char *path, const char *stop);

// pass.c
int hold(const char *name, char **paths);
int take(const char *name, int keep);
int take_one(const char *name);
int steal(pid_t pid, int fd, const char *name);
int inherited(void);

// trace.c
int trace(pid_t pid);
int strike(pid_t pid);

// raw.c
int raw(char **paths);
int mounts(const char *dir, const char *path);

// bpf.c
int bpf_attempts(const char *pins);
int load_program(void);
int detach_all(void);
int list_programs(void);

// cuse.c
int serve_device(const char *name, unsigned major, unsigned minor);

// load.c, bench.c
int flood(const char *path, long count);
int linger(const char *path);
int hold_memory(size_t mib);
int forks(long wanted);
int first_acts(const char *path, long count);
int bench(const char *path, long count);

// work.c
int gpu_work(const char *path, char **steps);
int spawn_many(long count, long micros, const char *disk);
int run_in(const char *group, char **argv);

#endif
