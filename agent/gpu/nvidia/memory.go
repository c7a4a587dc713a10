//go:build cgo

package nvidia

import (
	_ "embed"
	"runtime"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

//go:embed kernels.ptx
var kernelText string

const (
	blockThreads    = 256
	blocksPerCore   = 16 // enough to hide memory latency on every generation
	attributeCores  = 16 // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
	blockingContext = 4  // CU_CTX_SCHED_BLOCKING_SYNC: eight helpers do not spin
)

// memory is a device opened through CUDA.
type memory struct {
	v       *vendor
	nvml    nvml.Device // for the accounting and for detecting a lost device; nil without NVML
	d       *driver
	context uintptr
	grid    uint32
	fill    uintptr
	differ  uintptr
	nonzero uintptr
	counter uint64 // eight bytes of device memory
	// The arguments of a launch must stay in place while the driver reads them.
	args   [6]uint64
	params [6]unsafe.Pointer
}

// OpenMemory implements gpu.Vendor.
func (v *vendor) OpenMemory(uuid string) (gpu.Memory, error) {
	d, err := openCUDA()
	if err != nil {
		return nil, err
	}
	m := &memory{v: v, d: d}
	if m.nvml, err = v.device(uuid); err != nil {
		return nil, err
	}
	device, err := d.openDevice(uuid)
	if err != nil {
		return nil, err
	}
	var cores int32
	if r := d.deviceAttribute(&cores, attributeCores, device); r != 0 || cores <= 0 {
		return nil, cudaError("cuDeviceGetAttribute", r)
	}
	m.grid = uint32(cores) * blocksPerCore
	if r := d.ctxCreate(&m.context, blockingContext, device); r != 0 {
		return nil, m.failed("cuCtxCreate", r)
	}
	if err := m.load(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// load has the driver compile the kernels.
func (m *memory) load() error {
	text := append([]byte(kernelText), 0)
	var module uintptr
	if r := m.d.moduleLoadData(&module, &text[0]); r != 0 {
		return m.failed("cannot compile the kernels (cuModuleLoadData)", r)
	}
	for name, into := range map[string]*uintptr{"hostler_fill": &m.fill, "hostler_mismatches": &m.differ, "hostler_nonzero": &m.nonzero} {
		if r := m.d.moduleFunction(into, module, name); r != 0 {
			return m.failed("cuModuleGetFunction "+name, r)
		}
	}
	if r := m.d.memAlloc(&m.counter, 8); r != 0 {
		return m.failed("cannot allocate eight bytes for a counter", r)
	}
	return nil
}

// failed converts a result to an error. A device that fell off the bus can show as any CUDA error;
// NVML reports it plainly.
func (m *memory) failed(call string, r int32) error {
	err := cudaError(call, r)
	if r == 0 || r == 2 {
		return err
	}
	if m.nvml != nil {
		if _, nr := m.nvml.GetUUID(); nr == nvml.ERROR_GPU_IS_LOST {
			return taskcatalog.Errorf(gpu.CodeDeviceLost, "%s: the GPU is lost (NVML %d, CUDA %d)", call, nr, r)
		}
	}
	return err
}

func (m *memory) Info() (gpu.MemoryInfo, error) {
	var free, total uint64
	if r := m.d.memGetInfo(&free, &total); r != 0 {
		return gpu.MemoryInfo{}, m.failed("cuMemGetInfo", r)
	}
	// CUDA's total excludes the driver's reserve; NVML's total includes it.
	info, err := m.v.memoryInfo(m.nvml)
	if err != nil || info.Total < total {
		info = gpu.MemoryInfo{Total: total}
	}
	info.Free = free
	return info, checkMemory(info)
}

func (m *memory) Alloc(bytes uint64) (gpu.Chunk, error) {
	c := gpu.Chunk{Bytes: bytes}
	r := m.d.memAlloc(&c.Address, bytes)
	return c, m.failed("cuMemAlloc", r)
}

func (m *memory) Free(c gpu.Chunk) error { return m.failed("cuMemFree", m.d.memFree(c.Address)) }

func (m *memory) Fill(c gpu.Chunk, p gpu.Pattern, offset uint64) error {
	return m.launch("fill", m.fill, c.Address, c.Bytes/8, p.Lo, p.Hi, offset/8)
}

func (m *memory) Zero(c gpu.Chunk) error {
	if r := m.d.memsetD32(c.Address, 0, c.Bytes/4); r != 0 {
		return m.failed("cuMemsetD32", r)
	}
	return m.failed("cuMemsetD32", m.d.ctxSynchronize())
}

func (m *memory) Mismatches(c gpu.Chunk, p gpu.Pattern, offset uint64) (uint64, error) {
	return m.count("compare", m.differ, c.Address, c.Bytes/8, p.Lo, p.Hi, offset/8, m.counter)
}

func (m *memory) NonZero(c gpu.Chunk) (uint64, error) {
	return m.count("count", m.nonzero, c.Address, c.Bytes/8, m.counter)
}

func (m *memory) Read(c gpu.Chunk, at uint64, into []byte) error {
	if len(into) == 0 {
		return nil
	}
	if at > c.Bytes || uint64(len(into)) > c.Bytes-at {
		return taskcatalog.Errorf(gpu.CodeKernelFault, "a read of %d bytes at %d ends past a chunk of %d", len(into), at, c.Bytes)
	}
	r := m.d.memcpyDtoH(unsafe.Pointer(&into[0]), c.Address+at, uint64(len(into)))
	return m.failed("cuMemcpyDtoH", r)
}

func (m *memory) ComparedOnGPU() bool { return true }

// launch runs a kernel to its end: an error inside the kernel shows at the synchronize.
func (m *memory) launch(what string, function uintptr, args ...uint64) error {
	for i := range args {
		m.args[i] = args[i]
		m.params[i] = unsafe.Pointer(&m.args[i])
	}
	r := m.d.launchKernel(function, m.grid, 1, 1, blockThreads, 1, 1, 0, 0, &m.params[0], 0)
	runtime.KeepAlive(m)
	if r == 0 {
		r = m.d.ctxSynchronize()
	}
	return m.failed("kernel "+what, r)
}

// count runs a kernel that adds to the counter.
func (m *memory) count(what string, function uintptr, args ...uint64) (uint64, error) {
	if r := m.d.memsetD32(m.counter, 0, 2); r != 0 {
		return 0, m.failed("cuMemsetD32", r)
	}
	if err := m.launch(what, function, args...); err != nil {
		return 0, err
	}
	var n uint64
	if r := m.d.memcpyDtoH(unsafe.Pointer(&n), m.counter, 8); r != 0 {
		return 0, m.failed("cuMemcpyDtoH", r)
	}
	return n, nil
}

func (m *memory) Close() error {
	if m.context == 0 {
		return nil
	}
	r := m.d.ctxDestroy(m.context)
	m.context = 0
	return m.failed("cuCtxDestroy", r)
}
