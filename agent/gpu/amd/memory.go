package amd

import (
	"encoding/binary"

	"github.com/hostler/hostler/agent/gpu"
)

// memory is the memory of a GPU or a partition, on the thread that opened it.
type memory struct {
	*hip
	kernels *kernels // nil if they cannot be compiled
	counter address  // eight bytes in which kernels count
	host    []byte   // buffer for copies to the host, if there are no kernels
}

var _ gpu.Memory = (*memory)(nil)

// hostBytes is the size of a copy.
const hostBytes = 16 << 20

// OpenMemory opens the memory of a GPU, or of a partition. AMD SMI is shut down first.
func (v *Vendor) OpenMemory(uuid string) (gpu.Memory, error) {
	_, d, part, err := v.on(uuid)
	if err != nil {
		return nil, err
	}
	if err := v.Close(); err != nil {
		return nil, err
	}
	h, handle, err := loadHIP()
	if err != nil {
		return nil, err
	}
	n, err := h.ordinal(d.pci, part)
	if err != nil {
		return nil, err
	}
	what := "open the memory of GPU " + uuid
	if err := h.err(h.setDevice(n), what); err != nil {
		return nil, err
	}
	m := &memory{hip: h}
	if err := h.err(h.malloc(&m.counter, 8), what); err != nil {
		return nil, err
	}
	// Without a compiler the host compares: slower, and as good.
	if m.kernels, err = h.loadKernels(handle); err != nil {
		m.kernels, m.host = nil, make([]byte, hostBytes)
	}
	return m, nil
}

func (m *memory) Info() (gpu.MemoryInfo, error) {
	var free, total uint64
	err := m.err(m.memInfo(&free, &total), "read how much memory there is")
	return gpu.MemoryInfo{Total: total, Free: free}, err
}

func (m *memory) Alloc(bytes uint64) (gpu.Chunk, error) {
	var a address
	err := m.err(m.malloc(&a, bytes), "allocate GPU memory")
	return gpu.Chunk{Address: uint64(a), Bytes: bytes}, err
}

func (m *memory) Fill(c gpu.Chunk, p gpu.Pattern, offset uint64) error {
	if m.kernels != nil {
		return m.run(m.kernels.fill, c.Bytes/8, "fill GPU memory", c.Address, c.Bytes/8, p.Lo, p.Hi, offset/8)
	}
	return m.pieces(c, func(at uint64, piece []byte) error {
		first := (offset + at) / 8
		for i := range uint64(len(piece) / 8) {
			binary.LittleEndian.PutUint64(piece[8*i:], p.Word(first+i))
		}
		return m.err(m.toDevice(address(c.Address+at), &piece[0], uint64(len(piece))), "write GPU memory")
	})
}

func (m *memory) Zero(c gpu.Chunk) error {
	if err := m.err(m.memset32(address(c.Address), 0, c.Bytes/4), "clear GPU memory"); err != nil {
		return err
	}
	return m.err(m.synchronize(), "clear GPU memory")
}

func (m *memory) Mismatches(c gpu.Chunk, p gpu.Pattern, offset uint64) (uint64, error) {
	if m.kernels != nil {
		return m.count(m.kernels.mismatches, c, p.Lo, p.Hi, offset/8)
	}
	return m.compare(c, func(word, i uint64) bool { return word != p.Word(offset/8+i) })
}

func (m *memory) NonZero(c gpu.Chunk) (uint64, error) {
	if m.kernels != nil {
		return m.count(m.kernels.nonzero, c)
	}
	return m.compare(c, func(word, _ uint64) bool { return word != 0 })
}

// count runs a kernel that adds to a counter, its last argument.
func (m *memory) count(kernel uintptr, c gpu.Chunk, args ...uint64) (uint64, error) {
	n := make([]byte, 8)
	if err := m.err(m.toDevice(m.counter, &n[0], 8), "set the counter back"); err != nil {
		return 0, err
	}
	all := append([]uint64{c.Address, c.Bytes / 8}, args...)
	if err := m.run(kernel, c.Bytes/8, "compare GPU memory", append(all, uint64(m.counter))...); err != nil {
		return 0, err
	}
	err := m.err(m.toHost(&n[0], m.counter, 8), "read the counter")
	return binary.LittleEndian.Uint64(n), err
}

// compare counts on the host, reading all of a chunk back.
func (m *memory) compare(c gpu.Chunk, differs func(word, i uint64) bool) (uint64, error) {
	var count uint64
	err := m.pieces(c, func(at uint64, piece []byte) error {
		if err := m.Read(c, at, piece); err != nil {
			return err
		}
		for i := range uint64(len(piece) / 8) {
			if differs(binary.LittleEndian.Uint64(piece[8*i:]), at/8+i) {
				count++
			}
		}
		return nil
	})
	return count, err
}

// pieces calls do for pieces of a chunk that fit the host's buffer.
func (m *memory) pieces(c gpu.Chunk, do func(at uint64, piece []byte) error) error {
	for at := uint64(0); at < c.Bytes; at += hostBytes {
		if err := do(at, m.host[:min(hostBytes, c.Bytes-at)]); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) Read(c gpu.Chunk, at uint64, into []byte) error {
	if len(into) == 0 {
		return nil
	}
	return m.err(m.toHost(&into[0], address(c.Address+at), uint64(len(into))), "read GPU memory")
}

func (m *memory) ComparedOnGPU() bool { return m.kernels != nil }

func (m *memory) Free(c gpu.Chunk) error {
	return m.err(m.free(address(c.Address)), "free GPU memory")
}

// Close frees everything that this process has on the device.
func (m *memory) Close() error {
	if m.kernels != nil {
		m.unload(m.kernels.module)
	}
	err := m.err(m.free(m.counter), "free GPU memory")
	if e := m.err(m.deviceReset(), "close the GPU"); err == nil {
		err = e
	}
	return err
}
