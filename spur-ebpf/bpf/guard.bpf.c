/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The guard: what the device fence cannot see. The fence is asked when a node is opened; these programs are asked when a
 * descriptor is passed, used or mapped, and on the side ways: other processes, sysfs, bpf(), rings, pins, control groups.
 *
 * Each program leaves at once what is none of its business, and then every process that is in no job of this node's agent.
 * Needs Linux 6.1: older LSM programs do not know the ancestors of the running process's cgroup.
 */
#include "ward.h"

char LICENSE[] SEC("license") = "GPL";

SPUR_INLINE int refuse_here(struct ward *ward, spur_u32 operation, const void *name)
{
	struct attempt attempt = {.operation = operation, .verdict = SPUR_DENY_FORBIDDEN, .name = name};

	return refuse(ward, &attempt);
}

SPUR_INLINE int refuse_device(struct ward *ward, spur_u32 operation, spur_u32 verdict, spur_u32 device, spur_u32 access)
{
	struct attempt attempt = {.operation = operation, .verdict = verdict, .device = device, .access = access};

	return refuse(ward, &attempt);
}

/* --- files: whose is it --- */

SPUR_INLINE int is_own(struct ward *ward, struct file *file, spur_u64 what)
{
	spur_u64 key = (spur_u64)file;
	struct spur_guard_file *row = map_lookup(&guard_files, &key);

	return row && row->job == ward->id && row->what == what;
}

/* Of a process in no job it is nobody's, also where a job's file had the same address before. */
SPUR_INLINE void remember(const struct ward *ward, int in_job, struct file *file, spur_u64 what)
{
	struct spur_guard_file row = {.job = ward->id, .what = what};
	spur_u64 key = (spur_u64)file;

	if (in_job)
		map_update(&guard_files, &key, &row, 0);
	else
		map_delete(&guard_files, &key);
}

/*
 * A job's device does not leave it: what was opened in a job is no use to a process outside of all, which would still have it when
 * the job is over and the device another's. What was opened outside is left alone there.
 */
SPUR_INLINE int stays_in_job(struct file *file, spur_u64 what)
{
	spur_u64 key = (spur_u64)file;
	struct spur_guard_file *row = map_lookup(&guard_files, &key);

	return row && row->what == what ? -EPERM : 0;
}

SPUR_INLINE spur_u32 access_of(struct file *file)
{
	spur_u32 mode = file->f_mode;

	return (mode & OPENED_READ ? SPUR_ACCESS_READ : 0) | (mode & OPENED_WRITE ? SPUR_ACCESS_WRITE : 0);
}

/* The least recently used row goes when the map is full: one that is in use is not it. */
SPUR_INLINE void keep(struct file *file)
{
	spur_u64 key = (spur_u64)file;

	map_lookup(&guard_files, &key);
}

/* Uses of an open device follow the policy of this moment: what is taken away is taken away. */
SPUR_INLINE int use_device(struct file *file, struct inode *inode, spur_u32 operation)
{
	spur_u32 device = inode->i_rdev, verdict;
	struct ward ward = {};

	if (is_free(device))
		return 0;
	if (!find_job(&ward))
		return stays_in_job(file, device);
	verdict = decide_both(&ward, device, access_of(file));
	if (verdict >= SPUR_DENY_FIRST)
		return refuse_device(&ward, operation, verdict, device, access_of(file));
	keep(file);
	return 0;
}

/* An open that the fence allowed, or did not see (DRM leases clone a file). */
SPUR_INLINE int open_device(struct file *file, struct inode *inode)
{
	spur_u32 device = inode->i_rdev, verdict;
	struct ward ward = {};
	int in_job;

	if (is_free(device))
		return 0;
	in_job = find_job(&ward);
	remember(&ward, in_job, file, device);
	if (!in_job)
		return 0;
	verdict = decide_both(&ward, device, access_of(file));
	if (verdict >= SPUR_DENY_FIRST)
		return refuse_device(&ward, SPUR_OP_OPEN, verdict, device, access_of(file));
	return 0;
}

/* A granted device is not enough: the descriptor itself may carry another's memory. */
SPUR_INLINE int receive_device(struct file *file, struct inode *inode)
{
	spur_u32 device = inode->i_rdev, verdict;
	struct ward ward = {};

	if (is_free(device) || file->f_flags & O_PATH) /* the latter names a node; container runtimes pass such */
		return 0;
	if (!find_job(&ward))
		return stays_in_job(file, device);
	verdict = decide_both(&ward, device, access_of(file));
	if (verdict == SPUR_ALLOW_GRANTED && !is_own(&ward, file, device))
		verdict = SPUR_DENY_FOREIGN;
	if (verdict >= SPUR_DENY_FIRST)
		return refuse_device(&ward, SPUR_OP_RECEIVE, verdict, device, access_of(file));
	return 0;
}

SPUR_INLINE int take_dma_buf(struct file *file, spur_u32 operation)
{
	struct attempt attempt = {.operation = operation, .verdict = SPUR_DENY_FOREIGN, .is_dma_buf = 1};
	struct ward ward = {};

	if (!find_job(&ward))
		return stays_in_job(file, SPUR_FILE_DMA_BUF);
	if (is_own(&ward, file, SPUR_FILE_DMA_BUF))
		return 0;
	return refuse(&ward, &attempt);
}

/* --- sysfs and control groups --- */

#define NAME_LEN 16

/* A PCI device's memory: `resource0`, `resource0_wc`, `rom`; not `resource`, which lists addresses. */
SPUR_INLINE int is_bar(const char name[NAME_LEN])
{
	if (name[0] == 'r' && name[1] == 'o' && name[2] == 'm' && !name[3])
		return 1;
	return name[0] == 'r' && name[1] == 'e' && name[2] == 's' && name[3] == 'o' && name[4] == 'u' && name[5] == 'r' &&
	       name[6] == 'c' && name[7] == 'e' && name[8] >= '0' && name[8] <= '9';
}

SPUR_INLINE int open_sysfs(struct file *file, int any)
{
	const void *name = file->f_path.dentry->d_name.name;
	char start[NAME_LEN] = {};
	struct ward ward = {};

	if (!find_job(&ward))
		return 0;
	if (!any && !(file->f_mode & OPENED_WRITE)) {
		probe_read_kernel_str(start, sizeof(start), name);
		if (!is_bar(start))
			return 0;
	}
	return refuse_here(&ward, SPUR_OP_SYSFS, name);
}

#define DEPTH_MAX 32

/* `cgroup.procs` and `cgroup.threads`. */
SPUR_INLINE int moves_processes(const char name[NAME_LEN])
{
	return name[0] == 'c' && name[1] == 'g' && name[2] == 'r' && name[3] == 'o' && name[4] == 'u' && name[5] == 'p' && name[6] == '.' &&
	       ((name[7] == 'p' && name[8] == 'r' && name[9] == 'o') || (name[7] == 't' && name[8] == 'h' && name[9] == 'r'));
}

/*
 * A job may make groups below its own and set their limits, and no others'. It moves no process: nobody here sees which one a
 * number that is written means, and one of another job's would come under this job's name and reach.
 */
SPUR_INLINE int write_cgroup(struct file *file)
{
	const void *name = file->f_path.dentry->d_name.name;
	struct dentry *folder = file->f_path.dentry->d_parent;
	char start[NAME_LEN] = {};
	struct ward ward = {};
	spur_u64 own;

	if (!find_job(&ward))
		return 0;
	probe_read_kernel_str(start, sizeof(start), name);
	if (moves_processes(start))
		return refuse_here(&ward, SPUR_OP_CGROUP, name);
	find_step(&ward);
	own = ward.step ? ward.step_id : ward.id;
	for (int depth = 0; depth < DEPTH_MAX; depth++) {
		if (folder->d_inode->i_ino == own)
			return 0;
		folder = folder->d_parent;
	}
	return refuse_here(&ward, SPUR_OP_CGROUP, name);
}

SPUR_INLINE int open_regular(struct file *file, unsigned long magic)
{
	if (magic == MAGIC_SYSFS)
		return open_sysfs(file, 0);
	if (magic == MAGIC_DEBUGFS || magic == MAGIC_TRACEFS)
		return open_sysfs(file, 1);
	if (magic == MAGIC_CGROUP2 && file->f_mode & OPENED_WRITE)
		return write_cgroup(file);
	return 0;
}

/* --- the programs, named as their hooks; ctx holds the hook's arguments --- */

SEC("lsm/file_open")
int file_open(spur_u64 *ctx)
{
	struct file *file = (struct file *)ctx[0];
	struct inode *inode = file->f_inode;
	spur_u32 kind = inode->i_mode & KIND_MASK;

	if (kind == KIND_CHAR)
		return open_device(file, inode);
	if (kind == KIND_REGULAR)
		return open_regular(file, inode->i_sb->s_magic);
	return 0;
}

SEC("lsm/file_receive")
int file_receive(spur_u64 *ctx)
{
	struct file *file = (struct file *)ctx[0];
	struct inode *inode = file->f_inode;

	if ((inode->i_mode & KIND_MASK) == KIND_CHAR)
		return receive_device(file, inode);
	if (inode->i_sb->s_magic == MAGIC_DMA_BUF)
		return take_dma_buf(file, SPUR_OP_RECEIVE);
	return 0;
}

SPUR_INLINE int any_ioctl(struct file *file)
{
	struct inode *inode = file->f_inode;

	if ((inode->i_mode & KIND_MASK) == KIND_CHAR)
		return use_device(file, inode, SPUR_OP_IOCTL);
	return 0;
}

SEC("lsm/file_ioctl")
int file_ioctl(spur_u64 *ctx)
{
	return any_ioctl((struct file *)ctx[0]);
}

SEC("lsm/file_ioctl_compat")
int file_ioctl_compat(spur_u64 *ctx)
{
	return any_ioctl((struct file *)ctx[0]);
}

SEC("lsm/mmap_file")
int mmap_file(spur_u64 *ctx)
{
	struct file *file = (struct file *)ctx[0];
	struct inode *inode;

	if (!file) /* memory without a file */
		return 0;
	inode = file->f_inode;
	if ((inode->i_mode & KIND_MASK) == KIND_CHAR)
		return use_device(file, inode, SPUR_OP_MMAP);
	if (inode->i_sb->s_magic == MAGIC_DMA_BUF)
		return take_dma_buf(file, SPUR_OP_MMAP);
	return 0;
}

SEC("lsm/ptrace_access_check")
int ptrace_access_check(spur_u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct attempt attempt = {.operation = SPUR_OP_PTRACE, .verdict = SPUR_DENY_FOREIGN};
	struct ward ward = {};

	if (!find_job(&ward) || job_of(task) == ward.id)
		return 0;
	if (ctx[1] & PTRACE_NOAUDIT)
		return -EPERM;
	attempt.target = task->tgid;
	return refuse(&ward, &attempt);
}

SEC("lsm/task_kill")
int task_kill(spur_u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct attempt attempt = {.operation = SPUR_OP_SIGNAL, .verdict = SPUR_DENY_FOREIGN};
	struct ward ward = {};

	if (!(spur_u32)ctx[2]) /* only asks whether there is such a process */
		return 0;
	if (!find_job(&ward) || job_of(task) == ward.id)
		return 0;
	attempt.target = task->tgid;
	attempt.flags = settings.deny_signals ? 0 : SPUR_EVENT_NOTED;
	return refuse(&ward, &attempt);
}

SPUR_INLINE int refuse_always(spur_u32 operation, const void *name)
{
	struct ward ward = {};

	return find_job(&ward) ? refuse_here(&ward, operation, name) : 0;
}

SEC("lsm/bpf")
int bpf(spur_u64 *ctx)
{
	return refuse_always(SPUR_OP_BPF, 0);
}

SEC("lsm/uring_sqpoll")
int uring_sqpoll(spur_u64 *ctx)
{
	return refuse_always(SPUR_OP_SQPOLL, 0);
}

SPUR_INLINE int take_pin(spur_u64 *ctx)
{
	struct inode *folder = (struct inode *)ctx[0];
	struct dentry *pin = (struct dentry *)ctx[1];

	return folder->i_sb->s_magic == MAGIC_BPF ? refuse_always(SPUR_OP_UNPIN, pin->d_name.name) : 0;
}

SEC("lsm/inode_unlink")
int inode_unlink(spur_u64 *ctx)
{
	return take_pin(ctx);
}

SEC("lsm/inode_rename")
int inode_rename(spur_u64 *ctx)
{
	return take_pin(ctx);
}

SEC("lsm/sb_umount")
int sb_umount(spur_u64 *ctx)
{
	struct vfsmount *mount = (struct vfsmount *)ctx[0];

	return mount->mnt_sb->s_magic == MAGIC_BPF ? refuse_always(SPUR_OP_UNPIN, 0) : 0;
}

/* A root job could start a process in any group whose folder it can open. */
SEC("lsm/task_alloc")
int task_alloc(spur_u64 *ctx)
{
	return ctx[1] & CLONE_INTO_CGROUP ? refuse_always(SPUR_OP_CGROUP, 0) : 0;
}

/* Before anybody can have the new buffer's descriptor. A failed export has no file. */
SEC("fexit/dma_buf_export")
int dma_buf_export(spur_u64 *ctx)
{
	struct dma_buf *buffer = (struct dma_buf *)ctx[1];
	struct file *file = buffer->file;
	struct ward ward = {};

	if (file)
		remember(&ward, find_job(&ward), file, SPUR_FILE_DMA_BUF);
	return 0;
}
