package gpu

import "github.com/hostler/hostler/taskcatalog"

// Errors of a vendor's library or its driver.
const (
	CodeLibraryMissing    taskcatalog.Code = "library_missing"
	CodeLibraryMismatched taskcatalog.Code = "library_mismatched"
	CodeSymbolMissing     taskcatalog.Code = "symbol_missing"
	CodeDriverMissing     taskcatalog.Code = "driver_missing"
	CodeDriverFailed      taskcatalog.Code = "driver_failed" // an answer without a code of its own
	CodeNoPermission      taskcatalog.Code = "no_permission"
	CodeUnsupported       taskcatalog.Code = "unsupported"
	CodeDeviceMissing     taskcatalog.Code = "device_missing"
	CodeDeviceLost        taskcatalog.Code = "device_lost"
	CodeDeviceBusy        taskcatalog.Code = "device_busy"
	CodeResetRequired     taskcatalog.Code = "reset_required"
	CodeResetUnsupported  taskcatalog.Code = "reset_unsupported"
	CodeFabricNotReady    taskcatalog.Code = "fabric_not_ready"
	CodeOutOfMemory       taskcatalog.Code = "out_of_memory"
	CodeECCUncorrectable  taskcatalog.Code = "ecc_uncorrectable"
	CodeKernelFault       taskcatalog.Code = "kernel_fault"
	CodeVersionRefused    taskcatalog.Code = "struct_version_refused"
)

// Errors of a helper that gave no answer.
const (
	CodeHelperCrashed taskcatalog.Code = "helper_crashed"
	CodeHelperHung    taskcatalog.Code = "helper_hung"
	CodeHelperGarbage taskcatalog.Code = "helper_garbage"
	CodeHelperStuck   taskcatalog.Code = "helper_stuck" // the helper survived SIGKILL
)
