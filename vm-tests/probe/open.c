// SPDX-License-Identifier: Apache-2.0
// Every way to one device that a process has by itself.
#include "probe.h"

#include <sched.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

void say(const char *path, const char *way, int result, int error)
{
	const char *name = result >= 0 ? "OPENED" : strerrorname_np(error);
	printf("%s %s %s\n", path, way, name ? name : "?");
	fflush(stdout);
}

// One line; a result below 0 has its reason in errno.
void tell(const char *what, const char *way, const char *good, int result)
{
	const char *name = result >= 0 ? good : strerrorname_np(errno);
	printf("%s %s %s\n", what, way, name ? name : "?");
	fflush(stdout);
}

void try_open(const char *path, const char *shown, const char *way, int flags)
{
	int fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	say(shown, way, fd, errno);
	if (fd >= 0)
		close(fd);
}

static void reopen(const char *path)
{
	char self[64];
	int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0) {
		say(path, "procfd", -1, errno);
		return;
	}
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	try_open(self, path, "procfd", O_RDWR);
	close(fd);
}

static void new_names(const char *dir, const char *path, const struct stat *st)
{
	char name[4096];
	snprintf(name, sizeof(name), "%s/hard.%d", dir, getpid());
	if (link(path, name) < 0)
		say(path, "make-link", -1, errno);
	else
		try_open(name, path, "hardlink", O_RDWR);
	unlink(name);
	snprintf(name, sizeof(name), "%s/soft.%d", dir, getpid());
	if (symlink(path, name) < 0)
		say(path, "make-symlink", -1, errno);
	else
		try_open(name, path, "symlink", O_RDWR);
	unlink(name);
	snprintf(name, sizeof(name), "%s/node.%d", dir, getpid());
	if (mknod(name, S_IFCHR | 0666, st->st_rdev) < 0)
		say(path, "make-node", -1, errno);
	else
		try_open(name, path, "mknod", O_RDWR);
	unlink(name);
}

// As the root of a namespace of our own.
static void in_namespace(const char *dir, const char *path, const struct stat *st)
{
	pid_t child = fork();
	if (child == 0) {
		char name[4096];
		if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
			say(path, "make-userns", -1, errno);
			_exit(0);
		}
		try_open(path, path, "userns", O_RDWR);
		snprintf(name, sizeof(name), "%s/userns.%d", dir, getpid());
		if (mknod(name, S_IFCHR | 0666, st->st_rdev) < 0)
			say(path, "make-node-userns", -1, errno);
		else
			try_open(name, path, "mknod-userns", O_RDWR);
		unlink(name);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

// Where the cgroup2 tree is mounted.
int cgroup_folder(char *out, size_t size)
{
	char line[4096], own[2048] = "", mount[2048] = "";
	FILE *file = fopen("/proc/self/cgroup", "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "0::%2047s", own) == 1)
			break;
	if (file)
		fclose(file);
	file = fopen("/proc/self/mounts", "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%*s %2047s cgroup2", mount) == 1 && strstr(line, " cgroup2 "))
			break;
		else
			mount[0] = 0;
	if (file)
		fclose(file);
	return own[0] && mount[0] && snprintf(out, size, "%s%s", mount, own) < (int)size ? 0 : -1;
}

// Writes our pid into a cgroup; 0, or -1 with errno.
static int move_to(const char *folder)
{
	char name[8192];
	snprintf(name, sizeof(name), "%s/cgroup.procs", folder);
	int fd = open(name, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	int result = write(fd, "0", 1) == 1 ? 0 : -1, error = errno;
	close(fd);
	errno = error;
	return result;
}

// Leaving by the parent, and hiding in a child.
static void in_cgroups(const char *path)
{
	pid_t child = fork();
	if (child == 0) {
		char own[4096], other[4200];
		if (cgroup_folder(own, sizeof(own)) < 0)
			_exit(0);
		for (int up = 1; up <= 4; up++) {
			snprintf(other, sizeof(other), "%s%s", own, &"/../../../.."[12 - 3 * up]);
			if (move_to(other) < 0)
				say(path, "make-move", -1, errno);
			else
				try_open(path, path, "moved", O_RDWR);
		}
		snprintf(other, sizeof(other), "%s/probe-child", own);
		if (mkdir(other, 0755) < 0) {
			say(path, "make-cgroup", -1, errno);
			_exit(0);
		}
		if (move_to(other) < 0)
			say(path, "make-join", -1, errno);
		else
			try_open(path, path, "nested", O_RDWR);
		move_to(own);
		rmdir(other);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void orphan(const char *path)
{
	pid_t child = fork();
	if (child == 0) {
		setsid();
		pid_t grandchild = fork();
		if (grandchild == 0) {
			try_open(path, path, "orphan", O_RDWR);
			_exit(0);
		}
		waitpid(grandchild, NULL, 0);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void watch(const char *path)
{
	int fd = inotify_init1(IN_CLOEXEC);
	if (fd < 0)
		return;
	int id = inotify_add_watch(fd, path, IN_OPEN);
	printf("%s watch %s\n", path, id >= 0 ? "WATCHED" : strerrorname_np(errno));
	fflush(stdout);
	close(fd);
}

int scan(const char *dir, char **paths)
{
	for (; *paths; paths++) {
		struct stat st;
		if (stat(*paths, &st) < 0) {
			say(*paths, "make-stat", -1, errno);
			continue;
		}
		try_open(*paths, *paths, "read", O_RDONLY);
		try_open(*paths, *paths, "write", O_WRONLY);
		try_open(*paths, *paths, "both", O_RDWR);
		try_open(*paths, *paths, "three", O_ACCMODE);
		reopen(*paths);
		by_ring(*paths);
		watch(*paths);
		new_names(dir, *paths, &st);
		in_namespace(dir, *paths, &st);
		orphan(*paths);
		in_cgroups(*paths);
	}
	return 0;
}


int devices(char **paths)
{
	for (; *paths; paths++)
		try_open(*paths, *paths, "open", O_RDWR);
	return 0;
}
