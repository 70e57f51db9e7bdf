/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* A broken fence for tests: the same maps and name, and it allows everything. The canary has to notice. */
#include "fence_maps.h"

char LICENSE[] SEC("license") = "GPL";

SEC("cgroup/dev")
int spur_fence(struct device_ctx *ctx)
{
	spur_u32 key = 0;

	/* Touch every map, so that the object cannot be told from the real one by its maps. */
	map_lookup(&meta, &key);
	map_lookup(&devices, &(struct spur_fence_device_key){0, 0});
	local_storage(&policies, 0);
	local_storage(&counters, 0);
	return 1 | (table.majors[0] & 1);
}
