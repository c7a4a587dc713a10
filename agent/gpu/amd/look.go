package amd

import (
	"encoding/binary"
	"math"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// Look implements gpu.Vendor. The errors of XGMI links are left out: the library clears them when it
// reads them. RAS counts those of them that could not be corrected.
func (v *Vendor) Look() (gpu.Looks, error) {
	all := gpu.Looks{GPUs: []gpu.Look{}}
	s, err := v.session()
	if err != nil {
		all.Problem = taskcatalog.CodeOf(err, gpu.CodeDriverFailed)
		return all, nil
	}
	for _, err := range s.silent[:min(len(s.silent), taskcatalog.MaxHealthGPUs)] {
		all.Failed = append(all.Failed, err.Error())
	}
	for _, d := range s.devices[:min(len(s.devices), taskcatalog.MaxHealthGPUs)] {
		buf := make([]byte, structBytes)
		if s.driver(d.whole(), &buf[0]) == ok {
			all.Driver = text(buf, 0, s.layout.text)
		}
		var kind uint32
		if err := s.kind(d.whole(), &kind).err("look at GPU " + d.uuid); err != nil {
			all.Failed = append(all.Failed, err.Error())
			continue
		}
		all.GPUs = append(all.GPUs, s.look(d))
	}
	return all, nil
}

func (s *session) look(d device) gpu.Look {
	l := gpu.Look{UUID: d.uuid, PCIAddress: d.pci, Numbers: map[string]int64{"answers": 1}, Texts: map[string]string{}}
	h := s.memoryHealth(d)
	for name, n := range map[string]*uint64{
		"ecc_uncorrected": h.ECCUncorrected, "ecc_corrected": h.ECCCorrected, "retired_pages": h.BadPages,
	} {
		if n != nil && *n <= math.MaxInt64 {
			l.Numbers[name] = int64(*n)
		}
	}
	for name, on := range map[string]*bool{"remap_pending": h.RemapPending, "remap_failed": h.RemapFailed} {
		if on == nil {
			continue
		}
		l.Numbers[name] = 0
		if *on {
			l.Numbers[name] = 1
		}
	}
	if mode := s.text(s.partition, d); mode != "" {
		l.Texts["partition"] = mode
	}
	buf := make([]byte, structBytes)
	if s.metrics(d.whole(), &buf[0]) != ok {
		return l
	}
	for name, offset := range map[string]int{
		"temperature": metricsHotspot, "memory_temperature": metricsMemoryHeat, "pcie_width": metricsPCIeWidth,
	} {
		// A GPU without this figure reports zero or all ones.
		if n := binary.LittleEndian.Uint16(buf[offset:]); n != 0 && n != math.MaxUint16 {
			l.Numbers[name] = int64(n)
		}
	}
	if watts := binary.LittleEndian.Uint16(buf[metricsPower:]); watts != 0 && watts != math.MaxUint16 {
		l.Numbers["power_mw"] = int64(watts) * 1000
	}
	if n := word(buf, metricsPCIeReplays); n <= math.MaxInt64 { // all ones: the GPU has no such counter
		l.Numbers["pcie_replays"] = int64(n)
	}
	return l
}
