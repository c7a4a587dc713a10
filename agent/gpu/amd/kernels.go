package amd

import (
	_ "embed"
	"runtime"
	"unsafe"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

const rtcLibrary = "libhiprtc.so"

// kernelSource is compiled on the node for the present GPU: a HIP code object fits a single
// instruction set.
//
//go:embed kernels.hip
var kernelSource string

// rtc is the functions used from libhiprtc.so.
type rtc struct {
	create  func(program *uintptr, source, name string, headers int32, texts, names uintptr) int32 `symbol:"hiprtcCreateProgram"`
	compile func(program uintptr, n int32, options uintptr) int32                                  `symbol:"hiprtcCompileProgram"`
	size    func(program uintptr, bytes *uint64) int32                                             `symbol:"hiprtcGetCodeSize"`
	code    func(program uintptr, out *byte) int32                                                 `symbol:"hiprtcGetCode"`
	destroy func(program *uintptr) int32                                                           `symbol:"hiprtcDestroyProgram"`
}

// kernels are the functions that run on the GPU.
type kernels struct {
	module                    uintptr
	fill, mismatches, nonzero uintptr
}

// maxCodeBytes bounds the reported size of the compiled code.
const maxCodeBytes = 64 << 20

// compile makes the code object for the current device. Up to ROCm 6 the compiler is in the HIP
// library as well.
func compile(hipHandle uintptr) ([]byte, error) {
	handle, err := openLibrary(rtcLibrary, "7", "6")
	if err != nil {
		handle = hipHandle
	}
	c := &rtc{}
	if err := bind(handle, c); err != nil {
		return nil, err
	}
	var program uintptr
	if r := c.create(&program, kernelSource, "hostler.hip", 0, 0, 0); r != 0 {
		return nil, taskcatalog.Errorf(gpu.CodeUnsupported, "cannot compile the kernels: hiprtc refuses the source (result %d)", r)
	}
	defer c.destroy(&program)
	if r := c.compile(program, 0, 0); r != 0 {
		return nil, taskcatalog.Errorf(gpu.CodeUnsupported, "cannot compile the kernels: hiprtc result %d", r)
	}
	var n uint64
	if r := c.size(program, &n); r != 0 || n == 0 || n > maxCodeBytes {
		return nil, taskcatalog.Errorf(gpu.CodeUnsupported, "cannot compile the kernels: hiprtc reports a program of %d bytes (result %d)",
			n, r)
	}
	code := make([]byte, n)
	if r := c.code(program, &code[0]); r != 0 {
		return nil, taskcatalog.Errorf(gpu.CodeUnsupported, "cannot read the compiled kernels: hiprtc result %d", r)
	}
	return code, nil
}

// loadKernels compiles the kernels and loads them onto the current device.
func (h *hip) loadKernels(hipHandle uintptr) (*kernels, error) {
	code, err := compile(hipHandle)
	if err != nil {
		return nil, err
	}
	k := &kernels{}
	if err := h.err(h.load(&k.module, &code[0]), "load the kernels"); err != nil {
		return nil, err
	}
	for name, f := range map[string]*uintptr{"hostler_fill": &k.fill, "hostler_mismatches": &k.mismatches, "hostler_nonzero": &k.nonzero} {
		if err := h.err(h.function(f, k.module, name), "find the kernel "+name); err != nil {
			h.unload(k.module)
			return nil, err
		}
	}
	return k, nil
}

const (
	threadsPerBlock = 256
	maxBlocks       = 1 << 16 // beyond it each thread takes more words; blocks × threads stay below 2^32
)

// run launches a kernel over n words and waits for it. All arguments have 64 bits.
func (h *hip) run(function uintptr, n uint64, what string, args ...uint64) error {
	blocks := uint32(min((n+threadsPerBlock-1)/threadsPerBlock, maxBlocks))
	// The runtime wants the address of each argument, and reads the arguments before launch
	// returns.
	pointers := make([]uintptr, len(args))
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&args[0])
	for i := range args {
		pointers[i] = uintptr(unsafe.Pointer(&args[i]))
	}
	if err := h.err(h.launch(function, blocks, 1, 1, threadsPerBlock, 1, 1, 0, 0, &pointers[0], 0), what); err != nil {
		return err
	}
	return h.err(h.synchronize(), what)
}
