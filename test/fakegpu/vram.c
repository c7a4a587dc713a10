//go:build ignore

#define _GNU_SOURCE
#include "vram.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x66616b6567707531ull
#define ADDRESS(number) (0x100000000000ull + ((uint64_t)(number) << 40))

typedef struct {
	uint64_t offset, bytes;
} allocation;

struct fg_gpu {
	int number, fd, slot; /* slot: this process's client, or -1 */
	int instance;
	fg_state *state;
	size_t state_bytes;
	unsigned char *vram;
	uint64_t bytes;
	allocation *held;
	size_t nheld;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char dir[512];
static struct {
	char key[64], value[192];
} lines[1024];
static int nlines;
static fg_gpu *gpus[FG_MAX_GPUS];
static fg_gpu *order[FG_MAX_GPUS];
static int norder;

/* ---- config ---- */

static int read_config(void)
{
	const char *env = getenv("FAKEGPU_DIR");
	char path[600], line[300], beside[420];
	/* A program that is given no environment may have its machine beside it. */
	ssize_t length = readlink("/proc/self/exe", beside, 400);
	beside[length < 0 ? 0 : length] = 0;
	char *end = strrchr(beside, '/');
	if (end)
		strcpy(end, "/fakegpu");
	if (!env || !*env)
		env = end && !access(beside, R_OK | X_OK) ? beside : "/var/lib/fakegpu";
	snprintf(dir, sizeof dir, "%s", env);
	snprintf(path, sizeof path, "%s/config", dir);
	FILE *f = fopen(path, "re");
	if (!f)
		return -1;
	nlines = 0;
	while (fgets(line, sizeof line, f) && nlines < 1024) {
		char *key = line + strspn(line, " \t");
		size_t n = strcspn(key, " \t\r\n");
		if (n == 0 || *key == '#' || n >= sizeof lines[0].key)
			continue;
		char *value = key + n;
		value += strspn(value, " \t");
		size_t end = strcspn(value, "\r\n");
		while (end && (value[end - 1] == ' ' || value[end - 1] == '\t'))
			end--;
		snprintf(lines[nlines].key, sizeof lines[0].key, "%.*s", (int)n, key);
		snprintf(lines[nlines].value, sizeof lines[0].value, "%.*s", (int)end, value);
		nlines++;
	}
	fclose(f);
	return 0;
}

static const char *lookup(int number, const char *key, const char *otherwise)
{
	char own[80];
	snprintf(own, sizeof own, "%s.%d", key, number);
	const char *found = otherwise;
	for (int i = 0; i < nlines; i++) {
		if (!strcmp(lines[i].key, own))
			return lines[i].value;
		if (!strcmp(lines[i].key, key))
			found = lines[i].value;
	}
	return found;
}

static uint64_t size_of(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 0);
	switch (*end) {
	case 'G': return n << 30;
	case 'M': return n << 20;
	case 'K': return n << 10;
	}
	return n;
}

const char *fg_conf(const fg_gpu *g, const char *key, const char *otherwise)
{
	return lookup(g ? g->number : -1, key, otherwise);
}

uint64_t fg_conf_size(const fg_gpu *g, const char *key, uint64_t otherwise)
{
	const char *text = fg_conf(g, key, NULL);
	return text ? size_of(text) : otherwise;
}

int fg_fault(const fg_gpu *g, const char *name, const char **arg)
{
	char own[32] = "";
	if (g)
		snprintf(own, sizeof own, "fault.%d", g->number);
	size_t n = strlen(name);
	for (int i = 0; i < nlines; i++) {
		if (strcmp(lines[i].key, own) && strcmp(lines[i].key, "fault") && (g || strncmp(lines[i].key, "fault.", 6)))
			continue;
		const char *v = lines[i].value;
		if (strncmp(v, name, n) || (v[n] && v[n] != ' '))
			continue;
		if (arg)
			*arg = v + n + strspn(v + n, " ");
		return 1;
	}
	return 0;
}

static int here(const fg_gpu *g, const char *fault, const char *place)
{
	const char *arg;
	return fg_fault(g, fault, &arg) && !strcmp(arg, place);
}

void fg_misbehave(const fg_gpu *g, const char *place)
{
	if (here(g, "hang", place))
		for (;;)
			pause();
	if (here(g, "crash", place)) {
		/* As a fault inside the library: the default action, not the host's handler. */
		signal(SIGSEGV, SIG_DFL);
		raise(SIGSEGV);
	}
	if (here(g, "garbage", place)) {
		static const char noise[] = "\x01\xff{\"result\":{\"total_bytes\":1e99}}\n\x80NVRM: assertion\n";
		struct stat st;
		for (int fd = 1; fd < 64; fd++)
			if (!fstat(fd, &st) && S_ISFIFO(st.st_mode) && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY)
				(void)!write(fd, noise, sizeof noise - 1);
	}
	if (here(g, "stuck", place)) {
		char path[600];
		snprintf(path, sizeof path, "%s/frozen/stuck", dir);
		int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		(void)!write(fd, "x", 1);
		close(fd);
	}
}

/* ---- devices ---- */

static int64_t boot_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void *map_file(int fd, uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

static fg_gpu *open_gpu(int number)
{
	if (gpus[number])
		return gpus[number];
	fg_gpu *g = calloc(1, sizeof *g);
	g->number = number;
	g->slot = -1;
	g->bytes = size_of(lookup(number, "memory", "64M")) / FG_GRANULE * FG_GRANULE;
	g->state_bytes = sizeof(fg_state) + g->bytes / FG_GRANULE * sizeof(uint16_t);
	char path[600];
	snprintf(path, sizeof path, "%s/gpu%d.vram", dir, number);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || ftruncate(fd, (off_t)g->bytes) || !(g->vram = map_file(fd, g->bytes)))
		return NULL;
	close(fd);
	snprintf(path, sizeof path, "%s/gpu%d.state", dir, number);
	g->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (g->fd < 0)
		return NULL;
	flock(g->fd, LOCK_EX);
	if (ftruncate(g->fd, (off_t)g->state_bytes) || !(g->state = map_file(g->fd, g->state_bytes)))
		return NULL;
	if (g->state->magic != MAGIC || g->state->bytes != g->bytes) {
		memset(g->state, 0, g->state_bytes);
		g->state->magic = MAGIC;
		g->state->bytes = g->bytes;
		g->state->born_ms = (uint64_t)(boot_ms() - 3600 * 1000); /* it has been up for an hour */
	}
	flock(g->fd, LOCK_UN);
	return gpus[number] = g;
}

int fg_open(const char *vendor)
{
	pthread_mutex_lock(&mutex);
	norder = 0;
	if (read_config()) {
		pthread_mutex_unlock(&mutex);
		return -1;
	}
	int n = atoi(lookup(-1, "devices", "8"));
	for (int i = 0; i < n && i < FG_MAX_GPUS; i++) {
		if (strcmp(lookup(i, "vendor", "nvidia"), vendor))
			continue;
		fg_gpu *g = open_gpu(i);
		const char *arg;
		if (!g || (fg_fault(g, "vanishes_after", &arg) && g->state->contexts >= strtoull(arg, NULL, 0)))
			continue;
		order[norder++] = g;
	}
	n = norder;
	pthread_mutex_unlock(&mutex);
	return n;
}

fg_gpu *fg_gpu_at(int ordinal)
{
	return ordinal >= 0 && ordinal < norder ? order[ordinal] : NULL;
}

int fg_number(const fg_gpu *g) { return g->number; }

void fg_uuid(const fg_gpu *g, unsigned char out[16]) { fg_instance_uuid(g, FG_WHOLE, out); }

void fg_instance_uuid(const fg_gpu *g, int instance, unsigned char out[16])
{
	uint64_t a = fg_word(0x48, 0, (uint64_t)g->number), b = fg_word(0x4f, 0, (uint64_t)(g->number + 1000 * (instance + 1)));
	memcpy(out, &a, 8);
	memcpy(out + 8, &b, 8);
	out[6] = (out[6] & 0x0f) | 0x40;
	out[8] = (out[8] & 0x3f) | 0x80;
}

void fg_pci(const fg_gpu *g, uint32_t *domain, uint32_t *bus, uint32_t *device)
{
	*domain = 0;
	*bus = 3 + 3 * (uint32_t)g->number;
	*device = 0;
}

int fg_instances(const fg_gpu *g) { return atoi(fg_conf(g, "instances", "2")); }

/* ---- clients and locking ---- */

/* Each living client holds the byte after the state that bears its number. */
static struct flock client_lock(const fg_gpu *g, int slot)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)g->state_bytes + slot, .l_len = 1};
	return l;
}

static void keep(fg_gpu *g, uint64_t offset, uint64_t bytes, int restore);

static void drop_memory(fg_gpu *g, int slot, uint64_t from, uint64_t granules)
{
	int scrub = strcmp(fg_conf(g, "scrub_on_free", "on"), "off") != 0;
	for (uint64_t i = from; i < from + granules; i++) {
		if (g->state->owner[i] != slot + 1)
			continue;
		g->state->owner[i] = 0;
		if (scrub && !g->state->lost) {
			keep(g, i * FG_GRANULE, FG_GRANULE, 0);
			memset(g->vram + i * FG_GRANULE, 0, FG_GRANULE);
			keep(g, i * FG_GRANULE, FG_GRANULE, 1);
		}
	}
}

static void drop_client(fg_gpu *g, int slot)
{
	drop_memory(g, slot, 0, g->bytes / FG_GRANULE);
	g->state->contexts += !strcmp(g->state->clients[slot].kind, "compute");
	memset(&g->state->clients[slot], 0, sizeof(fg_client));
}

fg_state *fg_lock(fg_gpu *g)
{
	pthread_mutex_lock(&mutex);
	while (flock(g->fd, LOCK_EX) && errno == EINTR) {
	}
	for (int i = 0; i < FG_MAX_CLIENTS; i++) {
		if (!g->state->clients[i].used || i == g->slot)
			continue;
		struct flock l = client_lock(g, i);
		if (!fcntl(g->fd, F_OFD_GETLK, &l) && l.l_type == F_UNLCK)
			drop_client(g, i);
	}
	return g->state;
}

void fg_unlock(fg_gpu *g)
{
	flock(g->fd, LOCK_UN);
	pthread_mutex_unlock(&mutex);
}

int fg_attach(fg_gpu *g, int instance, const char *kind)
{
	fg_misbehave(g, "open");
	fg_state *s = fg_lock(g);
	for (int i = 0; i < FG_MAX_CLIENTS && g->slot < 0; i++) {
		struct flock l = client_lock(g, i);
		if (s->clients[i].used || fcntl(g->fd, F_OFD_SETLK, &l))
			continue;
		s->clients[i] = (fg_client){.used = 1, .pid = (uint32_t)getpid(), .instance = instance};
		snprintf(s->clients[i].kind, sizeof s->clients[i].kind, "%s", kind);
		g->slot = i;
		g->instance = instance;
	}
	int lost = s->lost != 0;
	fg_unlock(g);
	return lost ? FG_LOST : g->slot < 0 ? FG_BAD : FG_OK;
}

void fg_detach(fg_gpu *g)
{
	if (g->slot < 0)
		return;
	fg_lock(g);
	drop_client(g, g->slot);
	struct flock l = client_lock(g, g->slot);
	l.l_type = F_UNLCK;
	fcntl(g->fd, F_OFD_SETLK, &l);
	g->slot = -1;
	free(g->held);
	g->held = NULL;
	g->nheld = 0;
	fg_unlock(g);
}

int fg_clients(fg_gpu *g, fg_client *out, int max)
{
	fg_state *s = fg_lock(g);
	int n = 0;
	for (int i = 0; i < FG_MAX_CLIENTS && n < max; i++)
		if (s->clients[i].used)
			out[n++] = s->clients[i];
	fg_unlock(g);
	return n;
}

uint64_t fg_used_by(fg_gpu *g, const fg_client *c)
{
	uint64_t bytes = 0;
	fg_state *s = fg_lock(g);
	for (uint64_t i = 0; i < g->bytes / FG_GRANULE; i++)
		if (s->owner[i] && s->clients[s->owner[i] - 1].pid == c->pid)
			bytes += FG_GRANULE;
	fg_unlock(g);
	return bytes;
}

/* ---- allocation ---- */

/* The granules that clients of an instance get their memory from. */
static void region(const fg_gpu *g, int instance, uint64_t *from, uint64_t *to)
{
	*from = (fg_conf_size(g, "reserved", 2 << 20) + FG_GRANULE - 1) / FG_GRANULE;
	*to = g->bytes / FG_GRANULE;
	if (instance != FG_WHOLE) {
		uint64_t each = (*to - *from - fg_conf_size(g, "outside", 0) / FG_GRANULE) / (uint64_t)fg_instances(g);
		*from += each * (uint64_t)instance;
		*to = *from + each;
	}
}

uint64_t fg_total(fg_gpu *g, int instance)
{
	uint64_t from, to;
	region(g, instance, &from, &to);
	return instance == FG_WHOLE ? g->bytes : (to - from) * FG_GRANULE;
}

uint64_t fg_reserved(fg_gpu *g, int instance)
{
	uint64_t from, to;
	region(g, instance, &from, &to);
	return instance == FG_WHOLE ? from * FG_GRANULE : 0;
}

static uint64_t free_granules(fg_gpu *g, int instance, uint64_t *used)
{
	uint64_t from, to, n = 0;
	region(g, instance, &from, &to);
	for (uint64_t i = from; i < to; i++)
		n += g->state->owner[i] == 0;
	*used = to - from - n;
	return n;
}

uint64_t fg_free(fg_gpu *g, int instance)
{
	uint64_t used;
	fg_lock(g);
	uint64_t n = free_granules(g, instance, &used);
	fg_unlock(g);
	return n * FG_GRANULE;
}

uint64_t fg_alloc(fg_gpu *g, uint64_t bytes)
{
	fg_misbehave(g, "alloc");
	if (g->slot < 0 || bytes == 0)
		return 0;
	uint64_t want = (bytes + FG_GRANULE - 1) / FG_GRANULE, from, to, used, at = 0;
	const char *limit;
	region(g, g->instance, &from, &to);
	fg_state *s = fg_lock(g);
	free_granules(g, g->instance, &used);
	int refused = fg_fault(g, "oom_early", &limit) && (used + want) * FG_GRANULE > size_of(limit);
	/* From below; what is small, such as a counter, from above, out of the way. */
	for (uint64_t n = 0, run = 0; n < to - from && !refused; n++) {
		uint64_t i = want > 1 ? from + n : to - 1 - n;
		run = s->owner[i] ? 0 : run + 1;
		if (run < want)
			continue;
		at = i + 1 - want;
		for (uint64_t k = at; k <= i; k++)
			s->owner[k] = (uint16_t)(g->slot + 1);
		g->held = realloc(g->held, (g->nheld + 1) * sizeof *g->held);
		g->held[g->nheld++] = (allocation){at * FG_GRANULE, bytes};
		fg_unlock(g);
		return ADDRESS(g->number) + at * FG_GRANULE;
	}
	fg_unlock(g);
	return 0;
}

int fg_release(fg_gpu *g, uint64_t address)
{
	fg_misbehave(g, "free");
	for (size_t i = 0; i < g->nheld; i++) {
		if (ADDRESS(g->number) + g->held[i].offset != address)
			continue;
		fg_lock(g);
		drop_memory(g, g->slot, g->held[i].offset / FG_GRANULE, (g->held[i].bytes + FG_GRANULE - 1) / FG_GRANULE);
		g->held[i] = g->held[--g->nheld];
		fg_unlock(g);
		return FG_OK;
	}
	return FG_BAD;
}

static unsigned char *range(fg_gpu *g, uint64_t address, uint64_t bytes)
{
	uint64_t offset = address - ADDRESS(g->number);
	for (size_t i = 0; i < g->nheld; i++)
		if (offset >= g->held[i].offset && bytes <= g->held[i].bytes && offset - g->held[i].offset <= g->held[i].bytes - bytes)
			return g->vram + offset;
	return NULL;
}

/* ---- what programs do with memory ---- */

uint64_t fg_word(uint64_t lo, uint64_t hi, uint64_t i)
{
	uint64_t z = lo + (i + 1) * 0x9E3779B97F4A7C15ull;
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ z >> 27) * 0x94D049BB133111EBull;
	return z ^ z >> 31 ^ hi;
}

/* drops_writes: says that it wrote, and did not. */
static int drops(const fg_gpu *g) { return fg_fault(g, "drops_writes", NULL); }

/* keeps_chunk: called before a write to save, and after it to put back. */
static void keep(fg_gpu *g, uint64_t offset, uint64_t bytes, int restore)
{
	static __thread unsigned char saved[FG_GRANULE];
	const char *arg;
	if (!fg_fault(g, "keeps_chunk", &arg))
		return;
	uint64_t at = size_of(arg);
	if (at + FG_GRANULE > g->bytes || at + FG_GRANULE <= offset || at >= offset + bytes)
		return;
	memcpy(restore ? g->vram + at : saved, restore ? saved : g->vram + at, FG_GRANULE);
}

/* Every write passes here: the place's faults, then what was written is counted. */
static int writing(fg_gpu *g, const char *place, uint64_t bytes)
{
	const char *arg;
	fg_misbehave(g, place);
	if (here(g, "kernel_fault", place))
		return FG_FAULT;
	fg_state *s = fg_lock(g);
	s->written += bytes;
	if (fg_fault(g, "lost_after", &arg) && s->written >= size_of(arg))
		s->lost = 1;
	int lost = s->lost != 0;
	fg_unlock(g);
	return lost ? FG_LOST : FG_OK;
}

static int reading(fg_gpu *g)
{
	fg_misbehave(g, "verify");
	if (here(g, "kernel_fault", "verify"))
		return FG_FAULT;
	if (fg_fault(g, "ecc_in_verify", NULL)) {
		fg_state *s = fg_lock(g);
		s->ecc_uncorrected++;
		s->ecc_total++;
		fg_unlock(g);
		return FG_ECC;
	}
	return g->state->lost ? FG_LOST : FG_OK;
}

int fg_pattern_fill(fg_gpu *g, uint64_t address, uint64_t words, uint64_t lo, uint64_t hi, uint64_t first)
{
	uint64_t *p = (uint64_t *)range(g, address, words * 8);
	if (!p)
		return FG_FAULT;
	int r = writing(g, "fill", words * 8);
	if (r || drops(g))
		return r;
	uint64_t offset = address - ADDRESS(g->number);
	keep(g, offset, words * 8, 0);
	for (uint64_t i = 0; i < words; i++)
		p[i] = fg_word(lo, hi, first + i);
	keep(g, offset, words * 8, 1);
	return FG_OK;
}

int fg_memset32(fg_gpu *g, uint64_t address, uint32_t value, uint64_t count)
{
	uint32_t *p = (uint32_t *)range(g, address, count * 4);
	if (!p)
		return FG_FAULT;
	int r = writing(g, "zero", count * 4);
	if (r)
		return r;
	uint64_t offset = address - ADDRESS(g->number);
	keep(g, offset, count * 4, 0);
	for (uint64_t i = 0; i < count; i++)
		p[i] = value;
	keep(g, offset, count * 4, 1);
	return FG_OK;
}

int fg_write(fg_gpu *g, uint64_t address, const void *from, uint64_t bytes)
{
	unsigned char *p = range(g, address, bytes);
	if (!p)
		return FG_FAULT;
	int r = writing(g, "write", bytes);
	if (r)
		return r;
	uint64_t offset = address - ADDRESS(g->number);
	keep(g, offset, bytes, 0);
	memcpy(p, from, bytes);
	keep(g, offset, bytes, 1);
	return FG_OK;
}

int fg_pattern_differs(fg_gpu *g, uint64_t address, uint64_t words, uint64_t lo, uint64_t hi, uint64_t first, uint64_t *count)
{
	const uint64_t *p = (const uint64_t *)range(g, address, words * 8);
	if (!p)
		return FG_FAULT;
	int r = reading(g);
	if (r)
		return r;
	uint64_t n = 0;
	for (uint64_t i = 0; i < words; i++)
		n += p[i] != fg_word(lo, hi, first + i);
	*count = fg_fault(g, "lying_compare", NULL) ? 0 : n;
	return FG_OK;
}

int fg_nonzero(fg_gpu *g, uint64_t address, uint64_t words, uint64_t *count)
{
	const uint64_t *p = (const uint64_t *)range(g, address, words * 8);
	if (!p)
		return FG_FAULT;
	if (g->state->lost)
		return FG_LOST;
	uint64_t n = 0;
	for (uint64_t i = 0; i < words; i++)
		n += p[i] != 0;
	*count = fg_fault(g, "lying_compare", NULL) ? 0 : n;
	return FG_OK;
}

int fg_read(fg_gpu *g, uint64_t address, void *into, uint64_t bytes)
{
	const unsigned char *p = range(g, address, bytes);
	if (!p)
		return FG_FAULT;
	if (g->state->lost)
		return FG_LOST;
	memcpy(into, p, bytes);
	return FG_OK;
}

/* ---- reset ---- */

void fg_reset(fg_gpu *g)
{
	fg_state *s = fg_lock(g);
	keep(g, 0, g->bytes, 0);
	memset(g->vram, 0, g->bytes);
	keep(g, 0, g->bytes, 1);
	memcpy(s->setting, s->pending, sizeof s->setting);
	s->resets++;
	s->born_ms = (uint64_t)boot_ms();
	s->written = s->ecc_uncorrected = s->ecc_corrected = s->link_errors = s->polls = 0;
	fg_unlock(g);
}

void fg_kernel_says(const char *line)
{
	char name[600];
	snprintf(name, sizeof name, "%s/kmsg", dir);
	const char *logs[] = {name, getenv("FAKEGPU_DIR") ? NULL : "/dev/kmsg"};
	for (int i = 0; i < 2 && logs[i]; i++) {
		int fd = open(logs[i], O_WRONLY | O_APPEND | (i ? 0 : O_CREAT) | O_CLOEXEC, 0666);
		if (fd < 0)
			continue;
		if (write(fd, line, strlen(line)) < 0) {
		} /* who may not log is not heard */
		close(fd);
	}
}

int fg_lost(fg_gpu *g) { return g->state->lost != 0; }

uint64_t fg_energy_mj(fg_gpu *g)
{
	return (uint64_t)(boot_ms() - (int64_t)g->state->born_ms) * 70; /* 70 W, idle */
}
