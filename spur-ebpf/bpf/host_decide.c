/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The verdict on the host, for the property test: the lookups answer what the caller prepared. */
#include "fence_decide.h"

struct spur_host_env {
	const spur_u32 *major;
	const struct spur_fence_device *device;
	const struct spur_fence_policy *policy;
	spur_u32 lookups;
};

SPUR_INLINE const spur_u32 *spur_find_major(void *env, spur_u32 major)
{
	(void)major;
	((struct spur_host_env *)env)->lookups++;
	return ((struct spur_host_env *)env)->major;
}

SPUR_INLINE const struct spur_fence_device *spur_find_device(void *env, spur_u32 major, spur_u32 minor)
{
	(void)major;
	(void)minor;
	((struct spur_host_env *)env)->lookups++;
	return ((struct spur_host_env *)env)->device;
}

SPUR_INLINE const struct spur_fence_policy *spur_find_policy(void *env)
{
	((struct spur_host_env *)env)->lookups++;
	return ((struct spur_host_env *)env)->policy;
}

spur_u32 spur_host_decide(struct spur_host_env *env, const struct spur_request *request)
{
	return spur_decide(env, request);
}
