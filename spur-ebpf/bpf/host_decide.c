/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The verdict on the host, for the property test: the lookups answer what the caller prepared. */
#include "fence_decide.h"

struct spur_host_env {
	spur_u32 word;
	spur_u32 direct;
	spur_u32 hashed;
	spur_u32 index; /* of the entry that was read */
	spur_u32 lookups;
	spur_u32 reserved;
	const struct spur_fence_policy *policy;
};

SPUR_INLINE spur_u32 spur_read_major(void *env, spur_u32 major)
{
	(void)major;
	return ((struct spur_host_env *)env)->word;
}

SPUR_INLINE spur_u32 spur_read_entry(void *env, spur_u32 index)
{
	((struct spur_host_env *)env)->index = index;
	return ((struct spur_host_env *)env)->direct;
}

SPUR_INLINE spur_u32 spur_find_entry(void *env, spur_u32 major, spur_u32 minor)
{
	(void)major;
	(void)minor;
	((struct spur_host_env *)env)->lookups++;
	return ((struct spur_host_env *)env)->hashed;
}

SPUR_INLINE const struct spur_fence_policy *spur_find_policy(void *env)
{
	((struct spur_host_env *)env)->lookups++;
	return ((struct spur_host_env *)env)->policy;
}

spur_u32 spur_host_decide(struct spur_host_env *env, spur_u32 type, spur_u32 access, spur_u32 major, spur_u32 minor)
{
	return spur_decide(env, type, access, major, minor);
}
