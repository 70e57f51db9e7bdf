/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Block I/O, as io.stat has it: a bio belongs to the cgroup that its blkg names, which is the one that dirtied a page also when a
 * worker writes it; its bytes count once, and it is one operation more each time it is split. Devices that are stacked count each.
 */
#ifndef SPUR_METER_BLOCK_H
#define SPUR_METER_BLOCK_H

#include "meter_slot.h"

/* The cgroup that the block layer knows, if it is one of ours to tell: on the v2 tree, not above the jobs. */
SPUR_INLINE struct cgroup *owner_of(struct bio *bio, int typed)
{
	struct blkcg_gq *blkg = GET_IF(typed, bio->bi_blkg);
	struct cgroup_root *root;
	struct cgroup *group;
	struct blkcg *blkcg;

	if (!blkg)
		return 0;
	blkcg = GET(typed, blkg->blkcg);
	group = GET(typed, blkcg->css.cgroup);
	root = GET(typed, group->root);
	if (GET(typed, root->hierarchy_id) != 0 || GET(typed, group->level) < (int)settings.job_level)
		return 0;
	return group;
}

/* Whose bio it is; where the block layer does not know, the running task's. */
SPUR_INLINE struct spur_meter_slot *slot_of_bio(struct bio *bio, int typed)
{
	struct cgroup *group = owner_of(bio, typed);
	struct spur_meter_place place;
	struct spur_meter_slot *slot;

	if (group)
		return place_in(&place, group, typed) ? slot_at(&place, this_cpu()) : 0;
	slot = place_of_current(&place) ? slot_at(&place, this_cpu()) : 0;
	if (slot)
		__sync_fetch_and_add(&slot->guessed_ios, 1);
	return slot;
}

SPUR_INLINE int count_bio(struct bio *bio, int is_split, int typed)
{
	spur_u32 operation = GET(typed, bio->bi_opf) & OP_MASK;
	spur_u64 bytes = is_split ? 0 : GET(typed, bio->bi_iter.bi_size);
	struct spur_meter_slot *slot;

	if (operation == OP_DISCARD)
		return 0;
	slot = slot_of_bio(bio, typed);
	if (!slot)
		return 0;
	if (operation & 1) {
		add(&slot->writes, 1);
		add(&slot->write_bytes, bytes);
	} else {
		add(&slot->reads, 1);
		add(&slot->read_bytes, bytes);
	}
	return 0;
}

/* Which argument it is differs; the barriers keep the compiler from computing an address in ctx. */
SPUR_INLINE struct bio *bio_of(spur_u64 *ctx)
{
	spur_u64 bio;

	if (settings.flags & SPUR_METER_BIO_SECOND) {
		bio = ctx[1];
		SPUR_OPAQUE(bio);
	} else {
		bio = ctx[0];
		SPUR_OPAQUE(bio);
	}
	return (struct bio *)bio;
}

#endif
