/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The maps of a fence. User space finds them by these names. */
#ifndef SPUR_FENCE_MAPS_H
#define SPUR_FENCE_MAPS_H

#include "helpers.h"

struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, spur_u32);
	MAP_TYPE(value, struct spur_fence_meta);
} meta SEC(".maps");

/* A variable, which the loader turns into an array map of one value: the program reads it by address. */
struct spur_fence_table table SEC(".data.table") = {};

struct {
	MAP_UINT(type, MAP_HASH);
	MAP_UINT(max_entries, SPUR_DEVICES_MAX);
	MAP_TYPE(key, struct spur_fence_device_key);
	MAP_TYPE(value, spur_u32);
} devices SEC(".maps");

/* Keyed by cgroup id; the kernel makes an entry, all zero, when a link is made, and drops it with the cgroup. */
struct {
	MAP_UINT(type, MAP_CGROUP_STORAGE);
	MAP_TYPE(key, spur_u64);
	MAP_TYPE(value, struct spur_fence_policy);
} policies SEC(".maps");

/* Apart from the policy, because a policy write replaces the whole value and would lose counts made meanwhile. */
struct {
	MAP_UINT(type, MAP_PERCPU_CGROUP_STORAGE);
	MAP_TYPE(key, spur_u64);
	MAP_TYPE(value, struct spur_fence_counters);
} counters SEC(".maps");

/*
 * For the guard, whose programs have no cgroup storage: the same policies and counts by cgroup id. User space makes and removes the
 * rows and writes both forms of a policy together.
 */
struct {
	MAP_UINT(type, MAP_HASH);
	MAP_UINT(max_entries, SPUR_GUARDED_MAX);
	MAP_UINT(map_flags, MAP_NO_PREALLOC);
	MAP_TYPE(key, spur_u64);
	MAP_TYPE(value, struct spur_fence_policy);
} guard_policies SEC(".maps");

struct {
	MAP_UINT(type, MAP_PERCPU_HASH);
	MAP_UINT(max_entries, SPUR_GUARDED_MAX);
	MAP_UINT(map_flags, MAP_NO_PREALLOC);
	MAP_TYPE(key, spur_u64);
	MAP_TYPE(value, struct spur_fence_counters);
} guard_counters SEC(".maps");

/* Keyed by the address of the kernel's struct file. Written at each open of a fenced device, so an address that is used again is new. */
struct {
	MAP_UINT(type, MAP_LRU_HASH);
	MAP_UINT(max_entries, SPUR_FILES_MAX);
	MAP_TYPE(key, spur_u64);
	MAP_TYPE(value, struct spur_guard_file);
} guard_files SEC(".maps");

/* Which guard is pinned. */
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, spur_u32);
	MAP_TYPE(value, struct spur_guard_settings);
} guard_settings SEC(".maps");

struct {
	MAP_UINT(type, MAP_RINGBUF);
	MAP_UINT(max_entries, SPUR_AUDIT_BYTES);
} audit SEC(".maps");

#endif
