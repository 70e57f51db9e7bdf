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

SPUR_INLINE spur_u64 id_of(struct cgroup *group, int typed)
{
	struct kernfs_node *node = GET(typed, group->kn);

	return GET(typed, node->id);
}

SPUR_INLINE spur_u64 parent_id(struct cgroup *group, int typed)
{
	struct cgroup_subsys_state *parent = GET(typed, group->self.parent);

	return id_of(GET(typed, parent->cgroup), typed);
}

/*
 * The step's slot, else the job's; 0 if the cgroup is in no metered one. Most tasks are in a step's own cgroup, or above all jobs:
 * their way is the short one.
 */
SPUR_INLINE int place_in(struct spur_meter_place *place, struct cgroup *group, int typed)
{
	int below = GET(typed, group->level) - (int)settings.job_level;

	*place = (struct spur_meter_place){}; /* the verifier does not follow that it is read only if something was found */
	if (below < 0)
		return 0;
	if (below <= 1 && take_place(place, id_of(group, typed)))
		return 1;
	if (below <= 1)
		return below ? take_place(place, parent_id(group, typed)) : 0;
	return take_place(place, ancestor_id(group, settings.job_level + 1)) || take_place(place, ancestor_id(group, settings.job_level));
}

SPUR_INLINE int place_of(struct spur_meter_place *place, struct task_struct *task, int typed)
{
	struct css_set *set = GET(typed, task->cgroups);
	struct cgroup *group = GET(typed, set->dfl_cgrp);

	return place_in(place, group, typed);
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
