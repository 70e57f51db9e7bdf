// SPDX-License-Identifier: Apache-2.0
// Raw ways to hardware: memory, ports, and the files of sysfs; and nodes by mounts of our own.
#include "probe.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

int raw(char **paths)
{
	for (; *paths; paths++) {
		// Opening is what must be refused: nothing is written, for the machine must live on.
		int fd = open(*paths, O_RDWR | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0 && errno == EACCES)
			fd = open(*paths, O_WRONLY | O_CLOEXEC);
		if (fd < 0) {
			tell(*paths, "raw", "OPENED", -1);
			continue;
		}
		tell(*paths, "raw", "OPENED", fd);
		void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		tell(*paths, "rawmap", "MAPPED", at == MAP_FAILED ? -1 : 0);
		close(fd);
	}
	return 0;
}

static void under(const char *dir, const char *name, const char *path, const char *way)
{
	char full[8192];
	snprintf(full, sizeof(full), "%s/%s", dir, name);
	try_open(full, path, way, O_RDWR);
}

// In a mount namespace of our own, as its root.
static void in_mounts(const char *dir, const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	char parent[4096], options[9000], lower[4096];

	snprintf(parent, sizeof(parent), "%.*s", (int)(name - path), path);
	if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
		tell(path, "make-namespace", "MADE", -1);
		return;
	}
	mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
	if (mount(parent, dir, NULL, MS_BIND, NULL) < 0) {
		tell(path, "make-bind", "MADE", -1);
	} else {
		under(dir, name, path, "bind");
		umount2(dir, MNT_DETACH);
	}
	if (mount("devtmpfs", dir, "devtmpfs", 0, NULL) < 0) {
		tell(path, "make-devtmpfs", "MADE", -1);
	} else {
		under(dir, path + strlen("/dev/"), path, "devtmpfs");
		umount2(dir, MNT_DETACH);
	}
	snprintf(lower, sizeof(lower), "%.*s", (int)(name - path - 1), path);
	snprintf(options, sizeof(options), "lowerdir=%s:/etc", lower);
	if (mount("overlay", dir, "overlay", 0, options) < 0) {
		tell(path, "make-overlay", "MADE", -1);
	} else {
		under(dir, name, path, "overlay");
		umount2(dir, MNT_DETACH);
	}
}

int mounts(const char *dir, const char *path)
{
	pid_t child = fork();
	if (child == 0) {
		in_mounts(dir, path);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	return 0;
}
