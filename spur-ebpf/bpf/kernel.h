/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What we read of the kernel's own structs; the loader finds the real offsets. */
#ifndef SPUR_KERNEL_H
#define SPUR_KERNEL_H

#include "helpers.h"

struct kernfs_node {
	spur_u64 id;
} CORE;

struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[];
} CORE;

struct css_set {
	struct cgroup *dfl_cgrp;
} CORE;

struct task_struct {
	int pid;
	int tgid;
	struct css_set *cgroups;
	char comm[SPUR_COMM_LEN];
} CORE;

struct super_block {
	unsigned long s_magic;
} CORE;

struct inode {
	spur_u16 i_mode;
	spur_u32 i_rdev;
	struct super_block *i_sb;
	unsigned long i_ino;
} CORE;

struct qstr {
	const unsigned char *name;
} CORE;

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
} CORE;

struct path {
	struct dentry *dentry;
} CORE;

struct file {
	spur_u32 f_flags;
	spur_u32 f_mode;
	struct inode *f_inode;
	struct path f_path;
} CORE;

struct vfsmount {
	struct super_block *mnt_sb;
} CORE;

struct dma_buf {
	struct file *file;
} CORE;

/* <linux/stat.h> */
#define KIND_MASK 0170000
#define KIND_CHAR 0020000
#define KIND_REGULAR 0100000

/* <linux/fs.h> */
#define OPENED_READ 1u
#define OPENED_WRITE 2u
/* <asm-generic/fcntl.h> */
#define O_PATH 010000000u

/* <linux/magic.h> and <linux/dma-buf.h> */
#define MAGIC_SYSFS 0x62656572
#define MAGIC_DEBUGFS 0x64626720
#define MAGIC_TRACEFS 0x74726163
#define MAGIC_CGROUP2 0x63677270
#define MAGIC_BPF 0xcafe4a11
#define MAGIC_DMA_BUF 0x444d4142

/* <linux/ptrace.h>: asked on the way to something else, to be refused without a word */
#define PTRACE_NOAUDIT 4u

/* <linux/sched.h> */
#define CLONE_INTO_CGROUP 0x200000000ull

#define EPERM 1

#endif
