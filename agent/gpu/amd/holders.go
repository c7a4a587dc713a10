package amd

import (
	"github.com/hostler/hostler/agent/gpu"
)

// Holders lists the compute processes of each partition. The agent's helpers are left out, although
// the library lists them because they asked.
func (v *Vendor) Holders(uuid string) ([]gpu.Holder, error) {
	s, d, part, err := v.on(uuid)
	if err != nil {
		return nil, err
	}
	var all []gpu.Holder
	for i, p := range d.partitions {
		if part >= 0 && part != i {
			continue
		}
		found, err := gpu.WithoutOwnHelpers(func() ([]gpu.Holder, error) { return s.holders(p, d.uuid) })
		if err != nil {
			return nil, err
		}
		for _, h := range found {
			if len(d.partitions) > 1 {
				h.Instance = d.instance(i)
			}
			all = append(all, h)
		}
	}
	return all, nil
}

func (s *session) holders(p processor, uuid string) ([]gpu.Holder, error) {
	var n uint32
	what := "list the processes on GPU " + uuid
	if err := s.processes(p, &n, nil).err(what); err != nil || n == 0 {
		return nil, err
	}
	for {
		if err := bounded(n, maxProcesses, "processes on a GPU"); err != nil {
			return nil, err
		}
		room := n + 16 // some may start meanwhile
		buf := make([]byte, int(room)*s.layout.processBytes+structBytes)
		n = room
		st := s.processes(p, &n, &buf[0])
		if st == outOfResources && n > room {
			continue
		}
		if err := st.err(what); err != nil {
			return nil, err
		}
		all := make([]gpu.Holder, min(n, room))
		for i := range all {
			one := buf[i*s.layout.processBytes:]
			all[i] = gpu.Holder{PID: number(one, s.layout.processPID), Kind: "compute", MemoryBytes: new(word(one, s.layout.processVRAM))}
		}
		return all, nil
	}
}
