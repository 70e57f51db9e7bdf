/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The maps of the meter. User space finds them by these names; the sizes that depend on the machine are set by the loader. */
#ifndef SPUR_METER_MAPS_H
#define SPUR_METER_MAPS_H

#include "helpers.h"
#include "meter_abi.h"

const volatile struct spur_meter_settings settings SEC(".rodata.meter") = {};

struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, spur_u32);
	MAP_TYPE(value, struct spur_meter_meta);
} meta SEC(".maps");

/* Slot by slot, each with its shards. */
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, SPUR_METER_SLOTS);
	MAP_UINT(map_flags, MAP_MMAPABLE);
	MAP_TYPE(key, spur_u32);
	MAP_TYPE(value, struct spur_meter_slot);
} slots SEC(".maps");

/* By CPU. */
struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_UINT(map_flags, MAP_MMAPABLE);
	MAP_TYPE(key, spur_u32);
	MAP_TYPE(value, struct spur_meter_running);
} running SEC(".maps");

struct {
	MAP_UINT(type, MAP_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_UINT(map_flags, MAP_MMAPABLE);
	MAP_TYPE(key, spur_u32);
	MAP_TYPE(value, struct spur_meter_gpu_totals);
} gpu_totals SEC(".maps");

/* By cgroup id. */
struct {
	MAP_UINT(type, MAP_HASH);
	MAP_UINT(max_entries, SPUR_METER_SLOTS);
	MAP_TYPE(key, spur_u64);
	MAP_TYPE(value, struct spur_meter_place);
} places SEC(".maps");

#endif
