/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The verdict, and nothing else: no BPF helper, no map. Whoever includes this defines the three lookups below, so the same
 * lines run in the kernel (fence.bpf.c) and, for the property test, on the host (host_decide.c).
 */
#ifndef SPUR_FENCE_DECIDE_H
#define SPUR_FENCE_DECIDE_H

#include "fence_abi.h"

#define SPUR_INLINE static inline __attribute__((always_inline))

struct spur_request {
	spur_u32 type;
	spur_u32 access;
	spur_u32 major;
	spur_u32 minor;
};

/* Each may answer NULL. `env` is the includer's own. */
SPUR_INLINE const spur_u32 *spur_find_major(void *env, spur_u32 major);
SPUR_INLINE const struct spur_fence_device *spur_find_device(void *env, spur_u32 major, spur_u32 minor);
SPUR_INLINE const struct spur_fence_policy *spur_find_policy(void *env);

/* Devices that every program needs and that are never fenced: decided before any lookup, so that they cost nothing. */
SPUR_INLINE int spur_is_base_device(spur_u32 major, spur_u32 minor)
{
	if (major == 1) /* null zero full random urandom */
		return minor == 3 || minor == 5 || minor == 7 || minor == 8 || minor == 9;
	if (major == 5) /* tty console ptmx */
		return minor <= 2;
	return major >= 136 && major <= 143; /* pseudo terminals */
}

SPUR_INLINE spur_u32 spur_decide(void *env, const struct spur_request *request)
{
	const struct spur_fence_device *device;
	const struct spur_fence_policy *policy;
	const spur_u32 *major;
	spur_u32 bit;

	if (request->type != SPUR_DEVICE_CHAR)
		return SPUR_ALLOW_OPEN;
	if (spur_is_base_device(request->major, request->minor))
		return SPUR_ALLOW_OPEN;
	major = spur_find_major(env, request->major);
	if (!major)
		return SPUR_DENY_UNLISTED;
	if (*major == SPUR_MAJOR_OPEN)
		return SPUR_ALLOW_OPEN;
	device = spur_find_device(env, request->major, request->minor);
	if (!device && *major == SPUR_MAJOR_LISTED)
		return SPUR_ALLOW_OPEN;

	/* Fenced from here on. */
	if (request->access & SPUR_ACCESS_MKNOD)
		return SPUR_DENY_MKNOD;
	if (!device)
		return SPUR_DENY_UNLISTED;
	bit = device->bit;
	if (bit >= SPUR_GRANT_BITS)
		return SPUR_DENY_NEVER;
	policy = spur_find_policy(env);
	if (!policy || policy->abi != SPUR_FENCE_ABI)
		return SPUR_DENY_NO_POLICY;
	if (policy->grants[(bit / 64) & (SPUR_GRANT_WORDS - 1)] >> (bit % 64) & 1)
		return SPUR_ALLOW_GRANTED;
	return SPUR_DENY_NOT_GRANTED;
}

#endif
