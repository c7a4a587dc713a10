//go:build cgo

package nvidia

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// nvmlCodes maps NVML's return values to codes.
var nvmlCodes = map[nvml.Return]taskcatalog.Code{
	nvml.ERROR_NOT_SUPPORTED:             gpu.CodeUnsupported,
	nvml.ERROR_NO_PERMISSION:             gpu.CodeNoPermission,
	nvml.ERROR_NOT_FOUND:                 gpu.CodeDeviceMissing,
	nvml.ERROR_DRIVER_NOT_LOADED:         gpu.CodeDriverMissing,
	nvml.ERROR_LIBRARY_NOT_FOUND:         gpu.CodeLibraryMissing,
	nvml.ERROR_FUNCTION_NOT_FOUND:        gpu.CodeSymbolMissing,
	nvml.ERROR_GPU_IS_LOST:               gpu.CodeDeviceLost,
	nvml.ERROR_RESET_REQUIRED:            gpu.CodeResetRequired,
	nvml.ERROR_LIB_RM_VERSION_MISMATCH:   gpu.CodeLibraryMismatched,
	nvml.ERROR_IN_USE:                    gpu.CodeDeviceBusy,
	nvml.ERROR_ARGUMENT_VERSION_MISMATCH: gpu.CodeVersionRefused,
	nvml.ERROR_NOT_READY:                 gpu.CodeFabricNotReady,
	nvml.ERROR_GPU_NOT_FOUND:             gpu.CodeDeviceMissing,
}

func nvmlError(call string, r nvml.Return) error {
	code, known := nvmlCodes[r]
	if !known {
		code = gpu.CodeDriverFailed
	}
	return taskcatalog.Errorf(code, "%s: %s (NVML %d)", call, r.Error(), r)
}

// cudaError converts a CUresult to an error. 700 to 719 are kernel faults, which end their context.
func cudaError(call string, r int32) error {
	if r == 0 {
		return nil
	}
	code := gpu.CodeDriverFailed
	switch {
	case r == 2:
		code = gpu.CodeOutOfMemory
	case r == 46:
		code = gpu.CodeDeviceBusy
	case r == 100, r == 101:
		code = gpu.CodeDeviceMissing
	case r == 214:
		code = gpu.CodeECCUncorrectable
	case r >= 700 && r <= 719:
		code = gpu.CodeKernelFault
	case r == 802:
		code = gpu.CodeFabricNotReady
	case r == 803, r == 804:
		code = gpu.CodeLibraryMismatched
	}
	return taskcatalog.Errorf(code, "%s: %s (CUDA %d)", call, cudaText(r), r)
}

func cudaText(r int32) string {
	switch r {
	case 2:
		return "out of memory"
	case 46:
		return "the device is busy or not available for computing"
	case 100:
		return "no device is visible"
	case 214:
		return "uncorrectable ECC error"
	case 218, 222:
		return "the driver cannot compile the kernels"
	case 700:
		return "illegal memory access"
	case 802:
		return "the system is not ready (the fabric manager does not run or has not finished)"
	case 803, 804:
		return "the versions of library and driver do not match"
	}
	return fmt.Sprintf("error %d", r)
}
