/*
 * The machine behind the fake vendor libraries: GPUs whose memory is a file that
 * keeps what was in it, settings and counters that every process sees, and
 * faults. libnvidia-ml, libcuda, libamd_smi, libamdhip64 and the fake nvidia-smi
 * are thin layers of vendor ABI over this.
 *
 * State lives in FAKEGPU_DIR, or where that is not set in the folder fakegpu beside
 * the program, or else in /var/lib/fakegpu:
 *
 *   config     "key value" lines, '#' comments. A key may end in ".N": it then
 *              holds for GPU N alone and wins over the plain key.
 *   gpuN.vram  the memory of GPU N
 *   gpuN.state its struct fg_state, shared by mmap and guarded by flock
 *   kmsg       what the kernel logged
 *
 * Keys: devices N (8), vendor nvidia|amd (nvidia), memory SIZE (64M; K, M, G),
 * reserved SIZE (2M), name TEXT, driver TEXT, instances N (MIG or partitions),
 * outside SIZE (0; in none of the instances),
 * scrub_on_free on|off (on), setters root|anyone (root: who may change settings
 * through libnvidia-ml), fault NAME [ARG]. A fault line may be given often;
 * "fault.3 hang fill" is one of GPU 3 alone. Each library lists the faults it
 * knows at its top; those of memory are known here:
 *
 *   oom_early SIZE      no more than SIZE can be allocated
 *   keeps_chunk OFFSET  64 KiB at OFFSET of the VRAM ignore every write
 *   drops_writes        a kernel that fills says that it did, and wrote nothing
 *   ecc_in_verify       reading back meets an uncorrectable ECC error
 *   lying_compare       counting on the GPU finds nothing, whatever is there
 *   lost_after SIZE     the GPU falls off the bus when so much was written
 *   kernel_fault WHERE  an illegal access in: fill verify zero
 *   hang WHERE          waits for ever in: init open alloc fill verify zero free, nvml
 *                       (any question about the GPU), smi
 *   crash WHERE         SIGSEGV, in the same places
 *   garbage WHERE       writes noise into every pipe this process has open
 *   stuck WHERE         writes a file in FAKEGPU_DIR/frozen, which the harness
 *                       puts on a file system that it froze: SIGKILL does not help
 *   vanishes_after N    not on the bus any more once N contexts were closed
 */
#ifndef FAKEGPU_VRAM_H
#define FAKEGPU_VRAM_H

#include <stddef.h>
#include <stdint.h>

#define FG_MAX_GPUS 64
#define FG_MAX_CLIENTS 64
#define FG_GRANULE 65536ull /* the unit of allocation */
#define FG_WHOLE (-1)       /* "instance" of a client of the whole GPU */

enum fg_result { FG_OK = 0, FG_NOMEM, FG_ECC, FG_LOST, FG_FAULT, FG_BAD };

/* A process that has a context on a GPU. Whether it still lives is told by a
 * lock that it holds on the state file, so another PID namespace is no matter. */
typedef struct {
	uint32_t used, pid;
	int32_t instance; /* FG_WHOLE or the number of the instance */
	char kind[12];    /* compute, graphics */
} fg_client;

/* What all processes share of one GPU. Change it between fg_lock and fg_unlock. */
typedef struct {
	uint64_t magic, bytes;
	uint64_t resets;   /* true resets so far */
	uint64_t born_ms;  /* CLOCK_BOOTTIME of the last one: energy counts from it */
	uint64_t contexts; /* contexts closed so far */
	uint64_t written;  /* bytes written since the last reset */
	uint64_t lost;     /* fell off the bus */
	uint64_t ecc_uncorrected, ecc_corrected, ecc_total, link_errors;
	uint64_t polls; /* how often the fabric was asked since the last reset */
	/* Settings: in force, and after the next reset. Meanings are the library's. */
	int64_t setting[32], pending[32];
	fg_client clients[FG_MAX_CLIENTS];
	uint16_t owner[]; /* client + 1 of each granule, 0: free */
} fg_state;

typedef struct fg_gpu fg_gpu;

/* Reads the config again and opens the vendor's GPUs that are on the bus. How
 * many; -1 where there is no config. Those that a library holds stay valid. */
int fg_open(const char *vendor);
fg_gpu *fg_gpu_at(int ordinal); /* NULL past the end */
int fg_number(const fg_gpu *g); /* its number in the config: the N of "key.N" */

const char *fg_conf(const fg_gpu *g, const char *key, const char *otherwise);
uint64_t fg_conf_size(const fg_gpu *g, const char *key, uint64_t otherwise);
/* Whether the GPU (or, with NULL, any GPU) has the fault; its argument, or "", in *arg. */
int fg_fault(const fg_gpu *g, const char *name, const char **arg);
/* Hangs, crashes, writes garbage or gets stuck where the config says so for this place. */
void fg_misbehave(const fg_gpu *g, const char *place);

fg_state *fg_lock(fg_gpu *g); /* forgets dead clients first */
void fg_unlock(fg_gpu *g);

void fg_uuid(const fg_gpu *g, unsigned char out[16]);
/* The uuid of an instance; of the GPU itself for FG_WHOLE. */
void fg_instance_uuid(const fg_gpu *g, int instance, unsigned char out[16]);
void fg_pci(const fg_gpu *g, uint32_t *domain, uint32_t *bus, uint32_t *device);
int fg_instances(const fg_gpu *g); /* how many the config gives it */

/* This process becomes a client, and stops being one (its memory is freed). */
int fg_attach(fg_gpu *g, int instance, const char *kind);
void fg_detach(fg_gpu *g);
int fg_clients(fg_gpu *g, fg_client *out, int max); /* living ones, this process among them */
uint64_t fg_used_by(fg_gpu *g, const fg_client *c); /* bytes */

uint64_t fg_total(fg_gpu *g, int instance);
uint64_t fg_reserved(fg_gpu *g, int instance);
uint64_t fg_free(fg_gpu *g, int instance);

/* Addresses are what a program sees as device pointers. 0: out of memory. */
uint64_t fg_alloc(fg_gpu *g, uint64_t bytes);
int fg_release(fg_gpu *g, uint64_t address);

/* All answer an fg_result; a range must lie within one allocation of this process. */
int fg_pattern_fill(fg_gpu *g, uint64_t address, uint64_t words, uint64_t lo, uint64_t hi, uint64_t first);
int fg_pattern_differs(fg_gpu *g, uint64_t address, uint64_t words, uint64_t lo, uint64_t hi, uint64_t first, uint64_t *count);
int fg_nonzero(fg_gpu *g, uint64_t address, uint64_t words, uint64_t *count);
int fg_memset32(fg_gpu *g, uint64_t address, uint32_t value, uint64_t count);
int fg_write(fg_gpu *g, uint64_t address, const void *from, uint64_t bytes);
int fg_read(fg_gpu *g, uint64_t address, void *into, uint64_t bytes);

/* A true reset: memory cleared, counters at zero, pending settings in force. */
void fg_reset(fg_gpu *g);
/* The kernel's log: the file kmsg in FAKEGPU_DIR and, where that is the machine's
 * own (a guest's), /dev/kmsg. */
void fg_kernel_says(const char *line);
int fg_lost(fg_gpu *g);
uint64_t fg_energy_mj(fg_gpu *g); /* since the last reset */

/* The word i of a pattern. */
uint64_t fg_word(uint64_t lo, uint64_t hi, uint64_t i);

#endif
