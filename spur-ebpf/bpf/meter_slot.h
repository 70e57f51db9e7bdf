/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Whose is it: from a task or a cgroup to the slot that counts for it. */
#ifndef SPUR_METER_SLOT_H
#define SPUR_METER_SLOT_H

#include "meter_kernel.h"
#include "meter_maps.h"

/* Id of the ancestor of a cgroup at a level that is not below the cgroup's own. */
SPUR_INLINE spur_u64 ancestor_id(struct cgroup *group, spur_u32 level)
{
	struct cgroup *ancestor = 0;
	struct kernfs_node *node = 0;
	spur_u64 id = 0;

	if (HAS(group->ancestors)) {
		struct cgroup **ancestors = &group->ancestors[0];

		probe_read_kernel(&ancestor, sizeof(ancestor), ancestors + level);
		probe_read_kernel(&node, sizeof(node), &ancestor->kn);
		probe_read_kernel(&id, sizeof(id), &node->id);
	} else {
		spur_u64 *ids = &((struct cgroup___ids *)group)->ancestor_ids[0];

		probe_read_kernel(&id, sizeof(id), ids + level);
	}
	return id;
}

SPUR_INLINE int take_place(struct spur_meter_place *place, spur_u64 id)
{
	const struct spur_meter_place *found = map_lookup(&places, &id);

	if (!found)
		return 0;
	*place = *found;
	return 1;
}

/* The step's slot, else the job's; 0 if the cgroup is in no metered one. `level` is the cgroup's. */
SPUR_INLINE int place_in(struct spur_meter_place *place, struct cgroup *group, int level)
{
	if (level < (int)settings.job_level)
		return 0;
	if (level > (int)settings.job_level && take_place(place, ancestor_id(group, settings.job_level + 1)))
		return 1;
	return take_place(place, ancestor_id(group, settings.job_level));
}

SPUR_INLINE int place_of(struct spur_meter_place *place, struct task_struct *task, int typed)
{
	struct css_set *set = GET(typed, task->cgroups);
	struct cgroup *group = GET(typed, set->dfl_cgrp);

	return place_in(place, group, GET(typed, group->level));
}

SPUR_INLINE int place_of_current(struct spur_meter_place *place)
{
	return place_of(place, (struct task_struct *)current_task(), 0);
}

/* The shard for this CPU, unless the slot has gone to somebody else. */
SPUR_INLINE struct spur_meter_slot *slot_at(const struct spur_meter_place *place, spur_u32 cpu)
{
	spur_u32 index = place->slot * settings.shards + (cpu & (settings.shards - 1));
	struct spur_meter_slot *slot = map_lookup(&slots, &index);

	return slot && slot->generation == place->generation ? slot : 0;
}

SPUR_INLINE void add(spur_u64 *count, spur_u64 more)
{
	if (more)
		__sync_fetch_and_add(count, more);
}

#endif
