//go:build ignore

/*
 * A tenant's program for AMD: as tenant.c, through libamdhip64.
 *
 *   fakegpu-tenant-amd BYTES TOKEN [stay [ignore-sigterm]]
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
		int (*f)() = (int (*)())dlsym(hip, name);                                            \
		int r = f ? f(__VA_ARGS__) : -1;                                                     \
		if (r) {                                                                             \
			fprintf(stderr, "%s: %d\n", name, r);                                        \
			return 1;                                                                    \
		}                                                                                    \
	} while (0)

int main(int argc, char **argv)
{
	if (argc < 3 || !*argv[2]) {
		fprintf(stderr, "usage: fakegpu-tenant-amd BYTES TOKEN [stay [ignore-sigterm]]\n");
		return 2;
	}
	size_t bytes = strtoull(argv[1], NULL, 0), n = strlen(argv[2]);
	char *tokens = malloc(bytes);
	void *hip = dlopen("libamdhip64.so", RTLD_NOW);
	if (!hip || !tokens) {
		fprintf(stderr, "%s\n", hip ? "no memory" : dlerror());
		return 1;
	}
	for (size_t i = 0; i < bytes; i++)
		tokens[i] = argv[2][i % n];
	int devices = 0;
	CALL("hipInit", 0u);
	CALL("hipGetDeviceCount", &devices);
	for (int i = 0; i < devices; i++) {
		void *at = NULL;
		CALL("hipSetDevice", i);
		CALL("hipMalloc", &at, bytes);
		CALL("hipMemcpyHtoD", at, (void *)tokens, bytes);
	}
	if (argc > 4)
		signal(SIGTERM, SIG_IGN);
	puts("ready");
	fflush(stdout);
	while (argc > 3)
		pause();
	return 0;
}
