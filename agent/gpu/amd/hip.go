package amd

import (
	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

const hipLibrary = "libamdhip64.so"

// hipError is hipError_t.
type hipError int32

// address is a device pointer.
type address uintptr

// hip is the functions used from libamdhip64.so. The current device belongs to the thread.
type hip struct {
	initialize func(flags uint32) hipError `symbol:"hipInit"`
	count      func(n *int32) hipError     `symbol:"hipGetDeviceCount"`
	busID      func(out *byte, n int32,
		device int32) hipError `symbol:"hipDeviceGetPCIBusId"`
	setDevice   func(device int32) hipError `symbol:"hipSetDevice"`
	deviceReset func() hipError             `symbol:"hipDeviceReset"`
	synchronize func() hipError             `symbol:"hipDeviceSynchronize"`
	memInfo     func(free,
		total *uint64) hipError `symbol:"hipMemGetInfo"`
	malloc func(out *address,
		bytes uint64) hipError `symbol:"hipMalloc"`
	free     func(a address) hipError `symbol:"hipFree"`
	memset32 func(a address, value int32,
		count uint64) hipError `symbol:"hipMemsetD32"`
	toHost func(to *byte, from address,
		bytes uint64) hipError `symbol:"hipMemcpyDtoH"`
	toDevice func(to address, from *byte,
		bytes uint64) hipError `symbol:"hipMemcpyHtoD"`
	load func(module *uintptr,
		image *byte) hipError `symbol:"hipModuleLoadData"`
	unload   func(module uintptr) hipError `symbol:"hipModuleUnload"`
	function func(out *uintptr, module uintptr,
		name string) hipError `symbol:"hipModuleGetFunction"`
	launch func(function uintptr, gx, gy, gz, bx, by, bz, shared uint32, stream uintptr, args *uintptr,
		extra uintptr) hipError `symbol:"hipModuleLaunchKernel"`
	errorName func(e hipError) string `symbol:"hipGetErrorName"`
}

const (
	hipSuccess            hipError = 0
	hipOutOfMemory        hipError = 2
	hipInsufficientDriver hipError = 35
	hipNoDevice           hipError = 100
	hipInvalidDevice      hipError = 101
	hipECCNotCorrectable  hipError = 214
	hipNotSupported       hipError = 801
)

func openHIP() (*hip, error) {
	h, _, err := loadHIP()
	return h, err
}

func loadHIP() (*hip, uintptr, error) {
	handle, err := openLibrary(hipLibrary, "7", "6")
	if err != nil {
		return nil, 0, err
	}
	h := &hip{}
	return h, handle, bind(handle, h)
}

// err returns nil for success; what is the wanted action, as after "cannot".
func (h *hip) err(e hipError, what string) error {
	if e == hipSuccess {
		return nil
	}
	code := gpu.CodeDriverFailed
	switch {
	case e == hipOutOfMemory:
		code = gpu.CodeOutOfMemory
	case e == hipInsufficientDriver:
		code = gpu.CodeLibraryMismatched
	case e == hipNoDevice || e == hipInvalidDevice:
		code = gpu.CodeDeviceLost
	case e == hipECCNotCorrectable:
		code = gpu.CodeECCUncorrectable
	case e >= 700 && e < 720:
		code = gpu.CodeKernelFault
	case e == hipNotSupported:
		code = gpu.CodeUnsupported
	}
	return taskcatalog.Errorf(code, "cannot %s: %s (HIP error %d)", what, taskcatalog.Clean(h.errorName(e), 64), e)
}

// ordinal is HIP's number of a GPU, or of its partition part: HIP lists the partitions of a GPU in
// the order of AMD SMI, all at the same PCI address.
func (h *hip) ordinal(pci string, part int) (int32, error) {
	if e := h.initialize(0); e == hipNoDevice {
		return 0, taskcatalog.Errorf(gpu.CodeDeviceMissing, "cannot open the memory of GPU %s: HIP sees no GPU (is /dev/kfd there?)", pci)
	} else if err := h.err(e, "initialize "+hipLibrary); err != nil {
		return 0, err
	}
	var n int32
	if err := h.err(h.count(&n), "count the GPUs"); err != nil {
		return 0, err
	}
	if n < 0 || n > maxHandles {
		return 0, taskcatalog.Errorf(gpu.CodeDriverFailed, "cannot use HIP: it reports %d GPUs, which is implausible", n)
	}
	seen := 0
	for i := range n {
		buf := make([]byte, 64)
		if err := h.err(h.busID(&buf[0], int32(len(buf)), i), "read the PCI address of a GPU"); err != nil {
			return 0, err
		}
		if text(buf, 0, len(buf)) != pci {
			continue
		}
		if seen == max(part, 0) {
			return i, nil
		}
		seen++
	}
	return 0, taskcatalog.Errorf(gpu.CodeDeviceMissing, "cannot open the memory of GPU %s: HIP does not list it", pci)
}
