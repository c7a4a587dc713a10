package amd

import (
	"strconv"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// Codes of settings that the library accepted but that differ afterwards.
const (
	CodeSettingIgnored       taskcatalog.Code = "setting_ignored"
	CodeDriverReloadRequired taskcatalog.Code = "driver_reload_required"
)

// Apply sets the settings in want. The partition comes first: changing it restarts the GPU and may
// set the others back.
func (v *Vendor) Apply(uuid string, want gpu.Settings) ([]gpu.Deviation, error) {
	if _, _, _, err := v.on(uuid); err != nil {
		return nil, err
	}
	var off []gpu.Deviation
	for _, c := range changes(want) {
		deviation, err := v.apply(uuid, c)
		if err != nil {
			return off, err
		}
		if deviation != nil {
			off = append(off, *deviation)
		}
	}
	return off, nil
}

// change is a wanted setting.
type change struct {
	setting string
	want    string
	have    func(gpu.Settings) string
	// set is nil if AMD SMI cannot set the setting.
	set func(s *session, d device) status
	// ignored is the code if set succeeded and nothing changed.
	ignored taskcatalog.Code
	// renews: the list of partitions changes afterwards.
	renews bool
}

func changes(want gpu.Settings) []change {
	all := []change{
		{
			setting: "partition", want: want.Partition, renews: true,
			have: func(st gpu.Settings) string { return st.Partition },
			set: func(s *session, d device) status {
				mode, known := computeModes[want.Partition]
				if !known {
					return notSupported
				}
				return s.setPartition(d.whole(), mode)
			},
		},
		{
			setting: "memory_partition", want: want.MemoryPartition, renews: true, ignored: CodeDriverReloadRequired,
			have: func(st gpu.Settings) string { return st.MemoryPartition },
			set: func(s *session, d device) status {
				mode, known := s.layout.memoryModes[want.MemoryPartition]
				if !known {
					return notSupported
				}
				return s.setMemory(d.whole(), mode)
			},
		},
		{setting: "compute_mode", want: want.ComputeMode, have: func(st gpu.Settings) string { return st.ComputeMode }},
		{setting: "ecc", want: boolText(want.ECC), have: func(st gpu.Settings) string { return boolText(st.ECC) }},
		{setting: "persistence", want: boolText(want.Persistence), have: func(st gpu.Settings) string { return boolText(st.Persistence) }},
		{
			setting: "isolation", want: boolText(want.Isolation),
			have: func(st gpu.Settings) string { return boolText(st.Isolation) },
			set: func(s *session, d device) status {
				for _, p := range d.partitions {
					if st := s.setIsolation(p, flag(*want.Isolation)); st != ok {
						return st
					}
				}
				return ok
			},
		},
		{
			setting: "power_limit_mw", want: numberText(want.PowerLimitMW),
			have: func(st gpu.Settings) string { return numberText(st.PowerLimitMW) },
			set:  func(s *session, d device) status { return s.setPowerCap(d.whole(), 0, *want.PowerLimitMW*1000) },
		},
	}
	clocks := change{setting: "clocks", want: want.Clocks, have: func(st gpu.Settings) string { return st.Clocks }}
	if want.Clocks == "default" {
		clocks.set = func(s *session, d device) status { return s.setPerfLevel(d.whole(), perfAuto) }
	}
	return append(all, clocks)
}

// apply makes a change if necessary, and checks that it took. An error means that the GPU no longer
// answers.
func (v *Vendor) apply(uuid string, c change) (*gpu.Deviation, error) {
	if c.want == "" {
		return nil, nil
	}
	s, d, _, err := v.on(uuid)
	if err != nil {
		return nil, err
	}
	off := &gpu.Deviation{Setting: c.setting, Want: c.want, Have: c.have(s.settings(d))}
	if off.Have == c.want {
		return nil, nil
	}
	if c.set == nil {
		off.Code, off.Message = gpu.CodeUnsupported, "AMD SMI cannot set it"
		return off, nil
	}
	err = c.set(s, d).err("set " + c.setting + " of GPU " + d.uuid + " to " + c.want)
	if c.renews {
		if err := v.Close(); err != nil {
			return nil, err
		}
		var lost error
		if s, d, _, lost = v.on(uuid); lost != nil {
			return nil, lost
		}
	}
	off.Have = c.have(s.settings(d))
	switch {
	case off.Have == c.want:
		return nil, nil
	case err != nil:
		off.Code, off.Message = taskcatalog.CodeOf(err, gpu.CodeDriverFailed), err.Error()
	case c.ignored == CodeDriverReloadRequired:
		off.Code, off.Message = c.ignored, "the setting was accepted and takes effect when amdgpu is loaded again"
	default:
		off.Code, off.Message = CodeSettingIgnored, "AMD SMI reported success, and the setting is unchanged"
	}
	return off, nil
}

func flag(on bool) uint32 {
	if on {
		return 1
	}
	return 0
}

func boolText(b *bool) string {
	if b == nil {
		return ""
	}
	return strconv.FormatBool(*b)
}

func numberText(n *uint64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatUint(*n, 10)
}
