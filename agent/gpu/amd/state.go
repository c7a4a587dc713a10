package amd

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hostler/hostler/agent/gpu"
)

// State reads a GPU's settings and health. Unsupported values are missing; only a GPU that does not
// answer at all is an error.
func (v *Vendor) State(uuid string) (gpu.State, error) {
	s, d, _, err := v.on(uuid)
	if err != nil {
		return gpu.State{}, err
	}
	var kind uint32
	if err := s.kind(d.whole(), &kind).err("read the state of GPU " + d.uuid); err != nil {
		return gpu.State{}, err
	}
	nodes, err := v.nodes(d.pci)
	if err != nil {
		return gpu.State{}, err
	}
	return gpu.State{
		Settings: s.settings(d), Health: s.health(d), Counters: s.counters(d), Domain: s.hive(d), Nodes: nodes,
	}, nil
}

func (s *session) settings(d device) gpu.Settings {
	set := gpu.Settings{Partition: s.text(s.partition, d), MemoryPartition: s.text(s.memoryMode, d)}
	var level, on uint32
	if s.perfLevel(d.whole(), &level) == ok {
		set.Clocks = "set"
		if level == perfAuto {
			set.Clocks = "default"
		}
	}
	if s.isolation(d.whole(), &on) == ok {
		set.Isolation = new(on != 0)
	}
	// The call succeeds if any of its figures could be read; the others are zero.
	power := make([]byte, structBytes)
	if s.powerCap(d.whole(), 0, &power[0]) == ok && word(power, 0) != 0 {
		set.PowerLimitMW = new(word(power, 0) / 1000) // from microwatts
	}
	var blocks uint64
	if s.eccEnabled(d.whole(), &blocks) == ok {
		set.ECC = new(blocks != 0)
	}
	return set
}

// health reads the RAS counters, which the driver keeps since it was loaded, and the retired pages.
// XGMI reports no, one or several link errors since the last query; several counts as two.
func (s *session) health(d device) gpu.Health {
	h := s.memoryHealth(d)
	var links uint32
	if s.xgmiErrors(d.whole(), &links) == ok {
		h.LinkErrors = new(uint64(links))
	}
	return h
}

// memoryHealth is the part of health whose reading changes nothing.
func (s *session) memoryHealth(d device) gpu.Health {
	var h gpu.Health
	buf := make([]byte, structBytes)
	// Without RAS the library counts nothing and reports zero.
	var blocks uint64
	if s.eccEnabled(d.whole(), &blocks) == ok && blocks != 0 && s.eccCount(d.whole(), &buf[0]) == ok {
		h.ECCCorrected, h.ECCUncorrected = new(word(buf, 0)), new(word(buf, 8))
	}
	s.pages(d, &h)
	return h
}

const (
	pageBytes = 24 // amdsmi_retired_page_record_t: address, size, status
	maxPages  = 1 << 16
)

// pages reads the retired pages. The library writes all records, whatever room it is given; records
// added meanwhile fit into the rest of the buffer.
func (s *session) pages(d device, h *gpu.Health) {
	var n uint32
	if s.badPages(d.whole(), &n, nil) != ok {
		return
	}
	h.BadPages = new(uint64(n))
	pending, failed := false, false
	if n > maxPages {
		return
	}
	if n > 0 {
		buf := make([]byte, int(n)*pageBytes+structBytes)
		room := n
		if s.badPages(d.whole(), &room, &buf[0]) != ok {
			return
		}
		for i := range int(n) {
			// An unknown status does not count as retired.
			status := number(buf, i*pageBytes+16)
			pending = pending || status != pageRetired && status != pageFailed
			failed = failed || status == pageFailed
		}
	}
	h.RemapPending, h.RemapFailed = &pending, &failed
}

// hive names the XGMI hive; "" for a GPU in no hive.
func (s *session) hive(d device) string {
	buf := make([]byte, structBytes)
	if s.xgmi(d.whole(), &buf[0]) != ok || word(buf, 8) == 0 {
		return ""
	}
	return fmt.Sprintf("xgmi-%016x", word(buf, 8))
}

// counters are the counters kept by the GPU's firmware since its start or reset.
func (s *session) counters(d device) map[string]uint64 {
	all := map[string]uint64{}
	var n, at uint64
	var microjoules float32
	if s.energy(d.whole(), &n, &microjoules, &at) == ok && microjoules > 0 {
		all["energy_mj"] = uint64(float64(n) * float64(microjoules) / 1000)
	}
	buf := make([]byte, structBytes)
	if s.metrics(d.whole(), &buf[0]) == ok {
		for name, offset := range map[string]int{"firmware_time_10ns": metricsFirmwareTime, "firmware_samples": metricsSamples} {
			// A GPU without this counter reports zero or all ones.
			if v := word(buf, offset); v != 0 && v != math.MaxUint64 {
				all[name] = v
			}
		}
	}
	return all
}

// nodes are the device files of the GPU and its partitions. Each partition but the first has a card
// and a render node on a device of its own; the compute driver knows the render node. A partition
// unknown to the compute driver may belong to any GPU.
func (v *Vendor) nodes(pci string) ([]string, error) {
	if v.machine == nil {
		return nil, nil
	}
	all, err := gpu.DRMNodes(v.machine, pci)
	if err != nil {
		return nil, err
	}
	owner := map[string]string{}
	for _, n := range v.kfdNodes() {
		if n.render == 0 {
			continue
		}
		node := fmt.Sprintf("/dev/dri/renderD%d", n.render)
		if owner[node] = n.pci; n.pci == pci {
			all = append(all, node)
		}
	}
	partitions, err := gpu.PartitionNodes(v.machine)
	if err != nil {
		return nil, err
	}
	for _, nodes := range partitions {
		of := ""
		for _, node := range nodes {
			of = cmp.Or(of, owner[node])
		}
		if of == "" || of == pci {
			all = append(all, nodes...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
