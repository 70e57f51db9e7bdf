// SPDX-License-Identifier: Apache-2.0
// Descriptors that pass from one process to another: over a socket, by pidfd_getfd, through /proc, and by inheritance.
#include "probe.h"

#include <dirent.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

static int abstract_socket(const char *name, struct sockaddr_un *address, socklen_t *length)
{
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "%s", name);
	*length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

// Sends one name, with the descriptor.
static int send_one(int to, const char *name, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec text = {.iov_base = (void *)name, .iov_len = strlen(name)};
	struct msghdr message = {
		.msg_iov = &text, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *part = CMSG_FIRSTHDR(&message);
	part->cmsg_level = SOL_SOCKET;
	part->cmsg_type = SCM_RIGHTS;
	part->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(part), &fd, sizeof(int));
	return sendmsg(to, &message, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

// `buffer:PATH` is a dma-buf that PATH's driver made, anything else is opened.
static int open_held(const char *what)
{
	if (strncmp(what, "buffer:", 7) != 0)
		return open(what, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	int driver = open(what + 7, O_RDWR | O_CLOEXEC);
	return driver < 0 ? -1 : export_buffer(driver);
}

int hold(const char *name, char **paths)
{
	struct sockaddr_un address;
	socklen_t length;
	int fds[HELD_MAX], count = 0;

	// Whoever may trace us by uid may do so whatever Yama says.
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	signal(SIGCONT, SIG_IGN);
	for (; paths[count] && count < HELD_MAX; count++) {
		fds[count] = open_held(paths[count]);
		if (fds[count] < 0) {
			tell(paths[count], "hold", "HELD", -1);
			return 1;
		}
	}
	int listener = abstract_socket(name, &address, &length);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) < 0 || listen(listener, 8) < 0) {
		tell(name, "listen", "LISTENS", -1);
		return 1;
	}
	for (int i = 0; i < count; i++)
		printf("held %s %d\n", paths[i], fds[i]);
	printf("pid %d\n", getpid());
	fflush(stdout);
	for (;;) {
		int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (peer < 0)
			continue;
		for (int i = 0; i < count; i++)
			send_one(peer, paths[i], fds[i]);
		close(peer);
	}
}

static int connect_to(const char *name)
{
	struct sockaddr_un address;
	socklen_t length;
	int peer = abstract_socket(name, &address, &length);

	if (peer < 0 || connect(peer, (struct sockaddr *)&address, length) < 0) {
		tell(name, "connect", "CONNECTED", -1);
		return -1;
	}
	return peer;
}

// Receives one name of at most 4095 bytes; its descriptor, or -1 if none came with it. Returns 0 when no more will come.
static int receive_one(int peer, char *text, int *fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec into = {.iov_base = text, .iov_len = 4095};
	struct msghdr message = {
		.msg_iov = &into, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t size = recvmsg(peer, &message, MSG_CMSG_CLOEXEC);

	*fd = -1;
	if (size <= 0)
		return 0;
	text[size] = 0;
	struct cmsghdr *part = CMSG_FIRSTHDR(&message);
	if (!part || part->cmsg_type != SCM_RIGHTS || part->cmsg_len < CMSG_LEN(sizeof(int))) {
		printf("%s rights %s\n", text, message.msg_flags & MSG_CTRUNC ? "WITHHELD" : "NOTHING");
		fflush(stdout);
		return 1;
	}
	memcpy(fd, CMSG_DATA(part), sizeof(int));
	return 1;
}

int take(const char *name, int keep)
{
	int fd, peer = connect_to(name);
	char text[4096];

	if (peer < 0)
		return 1;
	while (receive_one(peer, text, &fd)) {
		if (fd < 0)
			continue;
		tell(text, "rights", "GOT", fd);
		use(fd, text);
	}
	while (keep)
		pause();
	return 0;
}

int take_one(const char *name)
{
	int fd = -1, peer = connect_to(name);
	char text[4096];

	if (peer >= 0) {
		receive_one(peer, text, &fd);
		close(peer);
	}
	return fd;
}

int steal(pid_t pid, int fd, const char *name)
{
	char path[64];
	int process = (int)syscall(SYS_pidfd_open, pid, 0);
	int copy = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, fd, 0);

	tell(name, "pidfd", "GOT", copy);
	if (copy >= 0)
		use(copy, name);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	copy = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	tell(name, "procfd", "GOT", copy);
	if (copy >= 0)
		use(copy, name);
	return 0;
}

int inherited(void)
{
	DIR *own = opendir("/proc/self/fd");
	struct dirent *entry;

	while (own && (entry = readdir(own))) {
		char name[300], target[4096];
		int fd = atoi(entry->d_name);
		if (entry->d_name[0] == '.' || fd == dirfd(own))
			continue;
		snprintf(name, sizeof(name), "/proc/self/fd/%s", entry->d_name);
		ssize_t size = readlink(name, target, sizeof(target) - 1);
		target[size < 0 ? 0 : size] = 0;
		printf("%d inherited %s\n", fd, target);
		if (strncmp(target, "/dev/", 5) == 0)
			use(fd, target);
	}
	return own ? 0 : 1;
}
