/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Who has a character device open: one look through the files of all processes, without /proc. */
#include "meter_slot.h"

char LICENSE[] SEC("license") = "GPL";

struct inode {
	spur_u16 i_mode;
	spur_u32 i_rdev;
} CORE;

struct file {
	struct inode *f_inode;
} CORE;

struct bpf_iter_meta {
	void *seq;
} CORE;

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	spur_u32 fd;
	struct file *file;
} CORE;

/* <linux/stat.h> */
#define KIND_MASK 0170000
#define KIND_CHAR 0020000

/* Memory devices and terminals, which everybody has and nobody fences. */
SPUR_INLINE int is_everybodys(spur_u32 major)
{
	return major == 1 || major == 4 || major == 5 || (major >= 136 && major <= 143);
}

/* The step's cgroup or the job's, whether they are metered or not; its own where that is above. */
SPUR_INLINE spur_u64 group_of(struct task_struct *task)
{
	struct cgroup *group = task->cgroups->dfl_cgrp;
	int level = group->level;

	if (level > (int)settings.job_level)
		return ancestor_id(group, settings.job_level + 1);
	return group->kn->id;
}

/* Not inlined, so that the row's type is part of the object's BTF. */
static __attribute__((noinline)) int send_row(void *seq, const struct spur_meter_holder *row)
{
	return (int)seq_write(seq, row, sizeof(*row));
}

SEC("iter/task_file")
int holders(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct spur_meter_holder row;
	struct inode *inode;
	spur_u32 device;

	if (!task || !file)
		return 0;
	inode = file->f_inode;
	device = inode->i_rdev;
	if ((inode->i_mode & KIND_MASK) != KIND_CHAR || is_everybodys(device >> 20))
		return 0;
	row.cgroup = group_of(task);
	row.pid = task->tgid;
	row.device = device;
	send_row(ctx->meta->seq, &row);
	return 0;
}
