package amd

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// Survey lists the GPUs. HIP is opened as a check, but not initialized: initializing would open
// every GPU.
func (v *Vendor) Survey() ([]taskcatalog.GPUFacts, []taskcatalog.LibraryFacts, error) {
	s, version, err := openSession()
	libraries := []taskcatalog.LibraryFacts{fact(smiLibrary, version, err)}
	_, hipErr := openHIP()
	libraries = append(libraries, fact(hipLibrary, "", hipErr))
	if err != nil {
		return nil, libraries, nil
	}
	defer s.shutDown()
	if len(s.silent) > 0 {
		libraries[0] = fact(smiLibrary, version, taskcatalog.Errorf(gpu.CodeDeviceLost, "%d GPUs do not answer: %v", len(s.silent),
			s.silent[0]))
	}
	nodes := v.kfdNodes()
	var gpus []taskcatalog.GPUFacts
	for i, d := range s.devices {
		g := s.facts(d)
		g.Index = i
		if arch := nodes.architecture(d.pci); arch != "" {
			g.Architecture = arch
		}
		gpus = append(gpus, g)
	}
	return gpus, libraries, nil
}

func fact(name, version string, err error) taskcatalog.LibraryFacts {
	f := taskcatalog.LibraryFacts{Name: name, Version: version}
	var e *taskcatalog.Error
	if errors.As(err, &e) {
		f.Problem, f.Detail = e.Code, e.Message
	}
	return f
}

// facts reads a GPU. Unknown values are missing.
func (s *session) facts(d device) taskcatalog.GPUFacts {
	g := taskcatalog.GPUFacts{Vendor: "amd", UUID: d.uuid, PCIAddress: d.pci, Partition: s.text(s.partition, d)}
	asic, board := make([]byte, structBytes), make([]byte, structBytes)
	if s.asic(d.whole(), &asic[0]) == ok {
		g.Name = text(asic, 0, 256)
		g.Serial = text(asic, s.layout.asicSerial, s.layout.serialText)
		// The name read as decimal: gfx90a is reported as 90, which is ambiguous.
		if gfx := word(asic, s.layout.asicGfx); gfx >= 100 && gfx < 100_000 {
			g.Architecture = fmt.Sprintf("gfx%d", gfx)
		}
	}
	if s.board(d.whole(), &board[0]) == ok {
		g.Serial = cmp.Or(text(board, boardSerial, s.layout.serialText), g.Serial)
	}
	total := new(uint64(0))
	for i, p := range d.partitions {
		bytes := s.memory(p)
		if len(d.partitions) > 1 {
			g.Instances = append(g.Instances, taskcatalog.GPUInstance{UUID: d.instance(i), Profile: g.Partition, MemoryBytes: bytes})
		}
		if bytes == nil || total == nil {
			total = nil
			continue
		}
		*total += *bytes
	}
	g.MemoryBytes = total
	return g
}

func (s *session) memory(p processor) *uint64 {
	var bytes uint64
	if s.memoryTotal(p, memoryVRAM, &bytes) != ok {
		return nil
	}
	return &bytes
}

// text asks for a mode's name; "" if the GPU has no such mode.
func (s *session) text(ask func(processor, *byte, uint32) status, d device) string {
	buf := make([]byte, structBytes)
	if ask(d.whole(), &buf[0], 64) != ok {
		return ""
	}
	return text(buf, 0, 64)
}
