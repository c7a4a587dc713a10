//go:build ignore

/*
 * A tenant's program: takes memory of each visible GPU through libcuda, leaves a
 * token in all of it, and goes, or stays until it is killed.
 *
 *   fakegpu-tenant BYTES TOKEN [stay [ignore-sigterm]]
 *
 * It prints "ready" once the token is written.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALL(name, ...)                                                                              \
	do {                                                                                         \
		int (*f)() = (int (*)())dlsym(cuda, name);                                           \
		int r = f ? f(__VA_ARGS__) : -1;                                                     \
		if (r) {                                                                             \
			fprintf(stderr, "%s: %d\n", name, r);                                        \
			return 1;                                                                    \
		}                                                                                    \
	} while (0)

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
	if (!cuda) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	size_t bytes = strtoull(argv[1], NULL, 0), n = strlen(argv[2]);
	char *data = malloc(bytes);
	for (size_t i = 0; i < bytes; i++)
		data[i] = argv[2][i % n];
	int count = 0;
	CALL("cuInit", 0u);
	CALL("cuDeviceGetCount", &count);
	for (int i = 0; i < count; i++) {
		int device;
		void *context;
		uint64_t address;
		CALL("cuDeviceGet", &device, i);
		CALL("cuCtxCreate_v2", &context, 0u, device);
		CALL("cuMemAlloc_v2", &address, bytes);
		CALL("cuMemcpyHtoD_v2", address, data, bytes);
	}
	printf("ready\n");
	fflush(stdout);
	if (argc > 4)
		signal(SIGTERM, SIG_IGN);
	while (argc > 3)
		pause();
	return 0;
}
