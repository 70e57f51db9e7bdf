/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the meter reads of the kernel's own structs; the loader finds the real offsets. */
#ifndef SPUR_METER_KERNEL_H
#define SPUR_METER_KERNEL_H

#include "helpers.h"

struct kernfs_node {
	spur_u64 id;
} CORE;

struct cgroup_root {
	int hierarchy_id; /* 0: the tree of cgroup v2 */
} CORE;

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} CORE;

struct cgroup {
	struct cgroup_subsys_state self;
	int level;
	struct kernfs_node *kn;
	struct cgroup_root *root;
	struct cgroup *ancestors[]; /* since Linux 6.1 */
} CORE;

/* The same, as it was before. */
struct cgroup___ids {
	int level;
	spur_u64 ancestor_ids[];
} CORE;

struct css_set {
	struct cgroup *dfl_cgrp;
} CORE;

struct sched_entity {
	spur_u64 sum_exec_runtime;
} CORE;

struct sched_info {
	unsigned long long run_delay;
} CORE;

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
	int nr_threads;
} CORE;

struct task_struct {
	int pid;
	int tgid;
	struct css_set *cgroups;
	struct sched_entity se;
	struct sched_info sched_info;
	spur_u64 utime;
	spur_u64 stime;
	unsigned long maj_flt;
	unsigned long min_flt;
	struct signal_struct *signal;
	struct task_struct *group_leader;
	spur_u64 start_time;
} CORE;

struct blkcg {
	struct cgroup_subsys_state css;
} CORE;

struct blkcg_gq {
	struct blkcg *blkcg;
} CORE;

struct bvec_iter {
	unsigned int bi_size;
} CORE;

struct bio {
	unsigned int bi_opf;
	struct bvec_iter bi_iter;
	struct blkcg_gq *bi_blkg;
} CORE;

/* <linux/blk_types.h> */
#define OP_MASK 0xffu
#define OP_DISCARD 3u

/* Whether the running kernel's struct has a member (BPF_FIELD_EXISTS). */
#define HAS(member) __builtin_preserve_field_info(member, 2)

/*
 * A member of a struct of the kernel. A program that knows the types of its arguments (tp_btf) reads it like one of its own, at
 * no cost; one that does not (raw_tp) asks a helper. `typed` is a constant.
 */
#define GET(typed, member)                                                                                                     \
	({                                                                                                                     \
		typeof(member) got_;                                                                                           \
		if (typed)                                                                                                     \
			got_ = (member);                                                                                       \
		else                                                                                                           \
			probe_read_kernel(&got_, sizeof(got_), &(member));                                                     \
		got_;                                                                                                          \
	})

/* The same, 0 where there is no such member. */
#define GET_IF(typed, member) (HAS(member) ? GET(typed, member) : 0)

#endif
