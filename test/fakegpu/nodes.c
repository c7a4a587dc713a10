//go:build ignore

/*
 * The GPUs' device files as a driver has them: /dev/nvidia0 and on, character
 * devices 195:0 and on that can be opened and closed, and nothing else.
 *
 *   fakegpu-nodes COUNT
 *
 * It needs root and the kernel's module cuse. The files are there until it ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAJOR 195
#define MAX_NODES 64
#define MAX_WRITE 4096

static void answer(int fd, const struct fuse_in_header *to, int error, void *body, size_t bytes)
{
	struct fuse_out_header head = {.len = (uint32_t)(sizeof head + bytes), .error = error, .unique = to->unique};
	struct iovec parts[] = {{&head, sizeof head}, {body, bytes}};
	if (writev(fd, parts, 2) < 0)
		perror("answer");
}

static void serve(int fd, int number)
{
	static char request[FUSE_MIN_READ_BUFFER];
	if (read(fd, request, sizeof request) < (ssize_t)sizeof(struct fuse_in_header))
		return;
	const struct fuse_in_header *in = (void *)request;
	struct {
		struct cuse_init_out out;
		char info[32]; /* ends with a NUL, which is part of it */
	} init = {.out = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION,
			  .max_read = MAX_WRITE, .max_write = MAX_WRITE, .dev_major = MAJOR, .dev_minor = (uint32_t)number}};
	struct fuse_open_out opened = {0};
	switch (in->opcode) {
	case CUSE_INIT:
		answer(fd, in, 0, &init, sizeof init.out + (size_t)snprintf(init.info, sizeof init.info, "DEVNAME=nvidia%d", number) + 1);
		break;
	case FUSE_OPEN: answer(fd, in, 0, &opened, sizeof opened); break;
	case FUSE_RELEASE: answer(fd, in, 0, NULL, 0); break;
	case FUSE_INTERRUPT: break; /* has no answer */
	default: answer(fd, in, -ENOSYS, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	struct pollfd nodes[MAX_NODES];
	int n = argc == 2 ? atoi(argv[1]) : 0;
	if (n < 1 || n > MAX_NODES)
		return 2;
	for (int i = 0; i < n; i++) {
		nodes[i] = (struct pollfd){.fd = open("/dev/cuse", O_RDWR | O_CLOEXEC), .events = POLLIN};
		if (nodes[i].fd < 0) {
			perror("/dev/cuse");
			return 1;
		}
	}
	while (poll(nodes, (nfds_t)n, -1) >= 0 || errno == EINTR)
		for (int i = 0; i < n; i++)
			if (nodes[i].revents & POLLIN)
				serve(nodes[i].fd, i);
	perror("poll");
	return 1;
}
