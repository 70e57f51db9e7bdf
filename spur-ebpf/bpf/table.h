/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The lookups of fence_decide.h that fence and guard share: the device table of the node. */
#ifndef SPUR_TABLE_H
#define SPUR_TABLE_H

#include "fence_maps.h"
#include "fence_decide.h"

SPUR_INLINE spur_u32 spur_read_major(void *env, spur_u32 major)
{
	SPUR_OPAQUE(major);
	return table.majors[major & (SPUR_MAJORS - 1)];
}

SPUR_INLINE spur_u32 spur_read_entry(void *env, spur_u32 index)
{
	SPUR_OPAQUE(index);
	return table.entries[index & (SPUR_SLOTS * SPUR_SLOT_MINORS - 1)];
}

SPUR_INLINE spur_u32 spur_find_entry(void *env, spur_u32 major, spur_u32 minor)
{
	struct spur_fence_device_key key = {.major = major, .minor = minor};
	const spur_u32 *entry = map_lookup(&devices, &key);

	return entry ? *entry : SPUR_ENTRY_NONE;
}

#endif
