package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// BPFProgram is a loaded eBPF program.
type BPFProgram struct {
	ID   uint32 // the kernel's number
	Type string // socketfilter, cgroupskb, tracing …
	Name string // chosen by the process that loaded the program
	Tag  string // the kernel's hash of the instructions
}

// BPFPrograms lists the eBPF programs in the running kernel.
func BPFPrograms() ([]BPFProgram, error) {
	var all []BPFProgram
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, fs.ErrNotExist) {
			return all, nil
		}
		if errors.Is(err, unix.ENOSYS) { // a kernel without bpf has no programs
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list eBPF programs: %w", err)
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, fs.ErrNotExist) { // unloaded meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot open eBPF program %d: %w", id, err)
		}
		info, err := p.Info()
		p.Close()
		if err != nil {
			return nil, fmt.Errorf("cannot look at eBPF program %d: %w", id, err)
		}
		all = append(all, BPFProgram{ID: uint32(id), Type: strings.ToLower(info.Type.String()), Name: info.Name, Tag: info.Tag})
	}
}
