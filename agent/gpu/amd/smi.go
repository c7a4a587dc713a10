package amd

// status is amdsmi_status_t.
type status uint32

// processor is an amdsmi_processor_handle: a GPU, or a partition.
type processor uintptr

// smi is the functions used from libamd_smi.so. Structures are passed as buffers and read by a
// layout.
type smi struct {
	initialize   func(flags uint64) status                                      `symbol:"amdsmi_init"`
	shutDown     func() status                                                  `symbol:"amdsmi_shut_down"`
	version      func(out *byte) status                                         `symbol:"amdsmi_get_lib_version"`
	sockets      func(n *uint32, out *uintptr) status                           `symbol:"amdsmi_get_socket_handles"`
	processors   func(socket uintptr, n *uint32, out *processor) status         `symbol:"amdsmi_get_processor_handles"`
	kind         func(p processor, out *uint32) status                          `symbol:"amdsmi_get_processor_type"`
	bdf          func(p processor, out *uint64) status                          `symbol:"amdsmi_get_gpu_device_bdf"`
	uuid         func(p processor, n *uint32, out *byte) status                 `symbol:"amdsmi_get_gpu_device_uuid"`
	asic         func(p processor, out *byte) status                            `symbol:"amdsmi_get_gpu_asic_info"`
	board        func(p processor, out *byte) status                            `symbol:"amdsmi_get_gpu_board_info"`
	driver       func(p processor, out *byte) status                            `symbol:"amdsmi_get_gpu_driver_info"`
	memoryTotal  func(p processor, kind uint32, bytes *uint64) status           `symbol:"amdsmi_get_gpu_memory_total"`
	xgmi         func(p processor, out *byte) status                            `symbol:"amdsmi_get_xgmi_info"`
	processes    func(p processor, n *uint32, out *byte) status                 `symbol:"amdsmi_get_gpu_process_list"`
	eccCount     func(p processor, out *byte) status                            `symbol:"amdsmi_get_gpu_total_ecc_count"`
	eccEnabled   func(p processor, blocks *uint64) status                       `symbol:"amdsmi_get_gpu_ecc_enabled"`
	badPages     func(p processor, n *uint32, out *byte) status                 `symbol:"amdsmi_get_gpu_bad_page_info"`
	xgmiErrors   func(p processor, out *uint32) status                          `symbol:"amdsmi_gpu_xgmi_error_status"`
	energy       func(p processor, n *uint64, unit *float32, at *uint64) status `symbol:"amdsmi_get_energy_count"`
	metrics      func(p processor, out *byte) status                            `symbol:"amdsmi_get_gpu_metrics_info"`
	partition    func(p processor, out *byte, n uint32) status                  `symbol:"amdsmi_get_gpu_compute_partition"`
	setPartition func(p processor, mode uint32) status                          `symbol:"amdsmi_set_gpu_compute_partition"`
	memoryMode   func(p processor, out *byte, n uint32) status                  `symbol:"amdsmi_get_gpu_memory_partition"`
	setMemory    func(p processor, mode uint32) status                          `symbol:"amdsmi_set_gpu_memory_partition"`
	powerCap     func(p processor, sensor uint32, out *byte) status             `symbol:"amdsmi_get_power_cap_info"`
	setPowerCap  func(p processor, sensor uint32, microwatts uint64) status     `symbol:"amdsmi_set_power_cap"`
	perfLevel    func(p processor, out *uint32) status                          `symbol:"amdsmi_get_gpu_perf_level"`
	setPerfLevel func(p processor, level uint32) status                         `symbol:"amdsmi_set_gpu_perf_level"`
	isolation    func(p processor, out *uint32) status                          `symbol:"amdsmi_get_gpu_process_isolation"`
	setIsolation func(p processor, on uint32) status                            `symbol:"amdsmi_set_gpu_process_isolation"`
	cleanLocal   func(p processor) status                                       `symbol:"amdsmi_clean_gpu_local_data"`
	reset        func(p processor) status                                       `symbol:"amdsmi_reset_gpu"`
}

const (
	initGPUs    = 2 // AMDSMI_INIT_AMD_GPUS
	kindGPU     = 1
	memoryVRAM  = 0
	perfAuto    = 0
	pageRetired = 0
	pageFailed  = 2 // 1: pending retirement
	uuidBytes   = 38
)
