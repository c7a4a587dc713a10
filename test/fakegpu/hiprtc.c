//go:build ignore

/*
 * A fake libhiprtc.so: its "code object" is the source behind a magic line. Fault of
 * its own: compile_fails (a compiler that cannot make code for this GPU).
 */
#include "amd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum result { OK = 0, INVALID_INPUT = 3, COMPILATION = 6 };

#define EXPORT __attribute__((visibility("default")))
#define MAGIC "fake code object\n"

EXPORT int hiprtcCreateProgram(char **program, const char *source, const char *name, int headers, const char **texts, const char **names)
{
	(void)name, (void)texts, (void)names;
	if (!source || headers)
		return INVALID_INPUT;
	size_t n = strlen(MAGIC) + strlen(source) + 1;
	*program = malloc(n);
	snprintf(*program, n, "%s%s", MAGIC, source);
	return OK;
}

EXPORT int hiprtcCompileProgram(const char *program, int noptions, const char **options)
{
	(void)program, (void)noptions, (void)options;
	fg_open("amd");
	fg_misbehave(NULL, "compile");
	return fg_fault(NULL, "compile_fails", NULL) ? COMPILATION : OK;
}

EXPORT int hiprtcGetCodeSize(const char *program, size_t *bytes)
{
	*bytes = strlen(program) + 1;
	return OK;
}

EXPORT int hiprtcGetCode(const char *program, char *code)
{
	strcpy(code, program);
	return OK;
}

EXPORT int hiprtcDestroyProgram(char **program)
{
	free(*program);
	*program = NULL;
	return OK;
}
