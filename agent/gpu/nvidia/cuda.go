//go:build cgo

package nvidia

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

const cudaLibrary = "libcuda.so.1"

// driver is the part of the CUDA driver API that a scrub needs. Every function returns a CUresult.
// The functions with a version in their name use 64-bit sizes and current contexts.
type driver struct {
	init             func(flags uint32) int32
	driverGetVersion func(version *int32) int32
	deviceGetCount   func(count *int32) int32
	deviceGet        func(device *int32, ordinal int32) int32
	deviceGetUUID    func(uuid *[16]byte, device int32) int32
	deviceAttribute  func(value *int32, attribute, device int32) int32
	ctxCreate        func(ctx *uintptr, flags uint32, device int32) int32
	ctxDestroy       func(ctx uintptr) int32
	ctxSynchronize   func() int32
	moduleLoadData   func(module *uintptr, image *byte) int32
	moduleFunction   func(function *uintptr, module uintptr, name string) int32
	launchKernel     func(function uintptr, gridX, gridY, gridZ, blockX, blockY, blockZ, shared uint32, stream uintptr,
		params *unsafe.Pointer, extra uintptr) int32
	memGetInfo func(free, total *uint64) int32
	memAlloc   func(address *uint64, bytes uint64) int32
	memFree    func(address uint64) int32
	memsetD32  func(address uint64, value uint32, count uint64) int32
	memcpyDtoH func(into unsafe.Pointer, address, bytes uint64) int32
}

func (d *driver) symbols() map[string]any {
	return map[string]any{
		"cuInit": &d.init, "cuDriverGetVersion": &d.driverGetVersion,
		"cuDeviceGetCount": &d.deviceGetCount, "cuDeviceGet": &d.deviceGet,
		"cuDeviceGetUuid_v2": &d.deviceGetUUID, "cuDeviceGetAttribute": &d.deviceAttribute,
		"cuCtxCreate_v2": &d.ctxCreate, "cuCtxDestroy_v2": &d.ctxDestroy, "cuCtxSynchronize": &d.ctxSynchronize,
		"cuModuleLoadData": &d.moduleLoadData, "cuModuleGetFunction": &d.moduleFunction, "cuLaunchKernel": &d.launchKernel,
		"cuMemGetInfo_v2": &d.memGetInfo, "cuMemAlloc_v2": &d.memAlloc, "cuMemFree_v2": &d.memFree,
		"cuMemsetD32_v2": &d.memsetD32, "cuMemcpyDtoH_v2": &d.memcpyDtoH,
	}
}

// openCUDA loads the library. It stays loaded, because it does not survive unloading.
var openCUDA = sync.OnceValues(func() (*driver, error) {
	lib, err := purego.Dlopen(cudaLibrary, purego.RTLD_LAZY|purego.RTLD_LOCAL)
	if err != nil {
		return nil, taskcatalog.Errorf(gpu.CodeLibraryMissing, "%s cannot be loaded: %v", cudaLibrary, err)
	}
	d := new(driver)
	for name, into := range d.symbols() {
		address, err := purego.Dlsym(lib, name)
		if err != nil {
			return nil, taskcatalog.Errorf(gpu.CodeSymbolMissing, "%s has no %s: the driver is too old", cudaLibrary, name)
		}
		purego.RegisterFunc(into, address)
	}
	return d, nil
})

// cudaFacts loads the library and opens no device.
func cudaFacts() taskcatalog.LibraryFacts {
	f := taskcatalog.LibraryFacts{Name: cudaLibrary}
	d, err := openCUDA()
	if err != nil {
		f.Problem, f.Detail = taskcatalog.CodeOf(err, gpu.CodeDriverFailed), err.Error()
		return f
	}
	var version int32
	if r := d.driverGetVersion(&version); r == 0 {
		f.Version = fmt.Sprintf("%d.%d", version/1000, version%1000/10)
	}
	return f
}

// openDevice makes a device, or instance, the only device visible to CUDA in this process, so that
// no context is created on another.
func (d *driver) openDevice(uuid string) (int32, error) {
	for name, value := range map[string]string{
		"CUDA_VISIBLE_DEVICES": uuid,
		// A cache of compiled kernels in a home folder may have been written by the last tenant.
		"CUDA_CACHE_DISABLE": "1",
		// A tenant's daemon at the usual place could share the GPU. Nobody can place one here.
		"CUDA_MPS_PIPE_DIRECTORY": "/proc/none",
	} {
		if err := os.Setenv(name, value); err != nil {
			return 0, err
		}
	}
	if r := d.init(0); r != 0 {
		return 0, cudaError("cuInit", r)
	}
	var count, device int32
	if r := d.deviceGetCount(&count); r != 0 {
		return 0, cudaError("cuDeviceGetCount", r)
	}
	if count != 1 {
		return 0, taskcatalog.Errorf(gpu.CodeDeviceMissing, "CUDA sees %d devices by the name of %s", count, uuid)
	}
	if r := d.deviceGet(&device, 0); r != 0 {
		return 0, cudaError("cuDeviceGet", r)
	}
	var raw [16]byte
	if r := d.deviceGetUUID(&raw, device); r != 0 {
		return 0, cudaError("cuDeviceGetUuid_v2", r)
	}
	have := fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
	if uuid != "GPU-"+have && uuid != "MIG-"+have {
		return 0, taskcatalog.Errorf(gpu.CodeDeviceMissing, "CUDA opened GPU %s instead of %s", have, uuid)
	}
	return device, nil
}
