/*
 * The structures of AMD SMI 24.7 and of 26: names of our own, layout of the ABI.
 * Those without a number are the same in both.
 */
#ifndef FAKEGPU_AMDSMI_H
#define FAKEGPU_AMDSMI_H

#include <stdint.h>

typedef struct {
	uint32_t part[4]; /* 24: year first */
	const char *build;
} version24;
typedef struct {
	uint32_t major, minor, release;
	const char *build;
} version26;

typedef struct {
	char market_name[256];
	uint32_t vendor_id;
	char vendor_name[64];
	uint32_t subvendor_id;
	uint64_t device_id;
	uint32_t rev_id;
	char asic_serial[32];
	uint32_t oam_id, compute_units;
	uint64_t target_graphics_version;
	uint32_t reserved[15];
} asic24;
typedef struct {
	char market_name[256];
	uint32_t vendor_id;
	char vendor_name[256];
	uint32_t subvendor_id;
	uint64_t device_id;
	uint32_t rev_id;
	char asic_serial[256];
	uint32_t oam_id, compute_units;
	uint64_t target_graphics_version;
	uint32_t subsystem_id;
	uint64_t flags;
	uint32_t reserved[19];
} asic26;

typedef struct {
	char model_number[256], product_serial[32], fru_id[32], product_name[256], manufacturer_name[64];
	uint32_t reserved[32];
} board24;
typedef struct {
	char model_number[256], product_serial[256], fru_id[256], product_name[256], manufacturer_name[256];
	uint64_t reserved[64];
} board26;

typedef struct {
	char version[64], date[64], name[64];
} driver24;
typedef struct {
	char version[256], date[256], name[256];
} driver26;

typedef struct {
	uint64_t gfx, enc;
	uint32_t reserved[12];
} engine_usage;
typedef struct {
	uint64_t gtt_mem, cpu_mem, vram_mem;
	uint32_t reserved[10];
} memory_usage;
typedef struct {
	char name[32];
	uint32_t pid;
	uint64_t mem;
	engine_usage engines;
	memory_usage memory;
	char container_name[32];
	uint32_t reserved[4];
} proc24;
typedef struct {
	char name[256];
	uint32_t pid;
	uint64_t mem;
	engine_usage engines;
	memory_usage memory;
	char container_name[256];
	uint32_t cu_occupancy, evicted_time, reserved[10];
} proc26;

typedef struct {
	uint64_t cap, default_cap, dpm_cap, min_cap, max_cap, reserved[3];
} power_cap;
typedef struct {
	uint64_t correctable, uncorrectable, deferred, reserved[5];
} error_count;
typedef struct {
	uint64_t address, size;
	uint32_t status;
} page_record;
typedef struct {
	uint8_t lanes;
	uint64_t hive_id, node_id;
	uint32_t index, reserved[9];
} xgmi_info;

/* The part of amdsmi_gpu_metrics_t that all versions have, where somebody reads it. */
typedef struct {
	uint8_t other[96];
	uint64_t firmware_timestamp; /* 10 ns */
	uint8_t links[320];
	uint64_t accumulation_counter;
	uint8_t rest[1400];
} gpu_metrics;

#endif
