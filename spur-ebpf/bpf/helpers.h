/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The few words of the kernel's BPF ABI that our programs use: helper numbers from <linux/bpf.h> (stable), and the section
 * and map-definition conventions of libbpf. Written out here so that a build needs clang and nothing else.
 */
#ifndef SPUR_HELPERS_H
#define SPUR_HELPERS_H

#include "fence_abi.h"
#include "words.h"

#define SEC(name) __attribute__((section(name), used))
#define MAP_UINT(name, value) int(*name)[value]
#define MAP_TYPE(name, value) typeof(value) *name
#define CORE __attribute__((preserve_access_index))

/* enum bpf_map_type */
#define MAP_HASH 1
#define MAP_ARRAY 2
#define MAP_PERCPU_HASH 5
#define MAP_LRU_HASH 9
#define MAP_CGROUP_STORAGE 19
#define MAP_PERCPU_CGROUP_STORAGE 21
#define MAP_RINGBUF 27
/* BPF_F_NO_PREALLOC, BPF_F_MMAPABLE */
#define MAP_NO_PREALLOC 1
#define MAP_MMAPABLE (1 << 10)
/* BPF_NOEXIST */
#define IF_ABSENT 1

/* struct bpf_cgroup_dev_ctx */
struct device_ctx {
	spur_u32 access_type; /* access << 16 | type */
	spur_u32 major;
	spur_u32 minor;
};

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, spur_u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static spur_u64 (*ktime_get_ns)(void) = (void *)5;
static spur_u32 (*this_cpu)(void) = (void *)8;
static spur_u64 (*current_uid_gid)(void) = (void *)15;
static spur_u64 (*current_task)(void) = (void *)35;
static spur_u64 (*current_cgroup_id)(void) = (void *)80;
static void *(*local_storage)(void *map, spur_u64 flags) = (void *)81;
static spur_u64 (*current_ancestor_cgroup_id)(int level) = (void *)123;
static long (*seq_write)(void *seq, const void *data, spur_u32 size) = (void *)127;
static long (*probe_read_kernel)(void *to, spur_u32 size, const void *from) = (void *)113;
static long (*probe_read_kernel_str)(void *to, spur_u32 size, const void *from) = (void *)115;
static void *(*ringbuf_reserve)(void *ring, spur_u64 size, spur_u64 flags) = (void *)131;
static void (*ringbuf_submit)(void *data, spur_u64 flags) = (void *)132;

#endif
