/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The verdict, and nothing else: no BPF helper, no map. Whoever includes this defines the three lookups below, so the same
 * lines run in the kernel (fence.bpf.c) and, for the property test, on the host (host_decide.c).
 */
#ifndef SPUR_FENCE_DECIDE_H
#define SPUR_FENCE_DECIDE_H

#include "fence_abi.h"
#include "words.h"

/* `env` is the includer's own. `major` is below SPUR_MAJORS and `index` within the table; a missing entry is SPUR_ENTRY_NONE. */
SPUR_INLINE spur_u32 spur_read_major(void *env, spur_u32 major);
SPUR_INLINE spur_u32 spur_read_entry(void *env, spur_u32 index);
SPUR_INLINE spur_u32 spur_find_entry(void *env, spur_u32 major, spur_u32 minor);
SPUR_INLINE const struct spur_fence_policy *spur_find_policy(void *env); /* may be NULL */

/* Devices that every program needs and that are never fenced, whatever the table says. */
SPUR_INLINE int spur_is_base_device(spur_u32 major, spur_u32 minor)
{
	if (major == 1) /* null zero full random urandom */
		return minor == 3 || minor == 5 || minor == 7 || minor == 8 || minor == 9;
	if (major == 5) /* tty console ptmx */
		return minor <= 2;
	return major >= 136 && major <= 143; /* pseudo terminals */
}

/* The entry of a device: in the table if its major has a slot and its minor is low, in the map otherwise. */
SPUR_INLINE spur_u32 spur_entry(void *env, spur_u32 word, spur_u32 major, spur_u32 minor)
{
	spur_u32 slot = word >> SPUR_SLOT_SHIFT & 0xff;

	if (slot && slot <= SPUR_SLOTS && minor < SPUR_SLOT_MINORS)
		return spur_read_entry(env, (slot - 1) * SPUR_SLOT_MINORS + minor);
	return spur_find_entry(env, major, minor);
}

/* Takes numbers rather than a struct, so that what is not fenced is let through without touching the stack. */
SPUR_INLINE spur_u32 spur_decide(void *env, spur_u32 type, spur_u32 access, spur_u32 major, spur_u32 minor)
{
	const struct spur_fence_policy *policy;
	spur_u32 word, class, entry, bit;

	if (type != SPUR_DEVICE_CHAR)
		return SPUR_ALLOW_OPEN;
	if (major >= SPUR_MAJORS)
		return SPUR_DENY_UNLISTED;
	word = spur_read_major(env, major);
	class = word & SPUR_CLASS_MASK;
	if (class == SPUR_CLASS_OPEN)
		return SPUR_ALLOW_OPEN;
	if (spur_is_base_device(major, minor))
		return SPUR_ALLOW_OPEN;
	entry = spur_entry(env, word, major, minor);
	if (entry == SPUR_ENTRY_NONE && class == SPUR_CLASS_LISTED)
		return SPUR_ALLOW_OPEN;

	/* Fenced from here on. */
	if (access & SPUR_ACCESS_MKNOD)
		return SPUR_DENY_MKNOD;
	if (entry == SPUR_ENTRY_NONE)
		return SPUR_DENY_UNLISTED;
	bit = entry - 1;
	if (bit >= SPUR_GRANT_BITS)
		return SPUR_DENY_NEVER;
	policy = spur_find_policy(env);
	if (!policy || policy->abi != SPUR_FENCE_ABI)
		return SPUR_DENY_NO_POLICY;
	SPUR_OPAQUE(bit);
	if (policy->grants[bit / 64 & (SPUR_GRANT_WORDS - 1)] >> (bit % 64) & 1)
		return SPUR_ALLOW_GRANTED;
	return SPUR_DENY_NOT_GRANTED;
}

#endif
