package taskcatalog

import (
	"slices"
	"time"
)

// HealthVerdict says how a GPU is, or the GPUs of a node together.
type HealthVerdict string

// The verdicts.
const (
	HealthHealthy  HealthVerdict = "healthy"
	HealthDegraded HealthVerdict = "degraded" // it works, and somebody must look after it
	HealthUnknown  HealthVerdict = "unknown"  // nobody can tell; never healthy
	HealthFailed   HealthVerdict = "failed"
)

// healthRanks are the verdicts from good to bad.
var healthRanks = []HealthVerdict{HealthHealthy, HealthDegraded, HealthUnknown, HealthFailed}

// Valid reports whether v is one of the verdicts.
func (v HealthVerdict) Valid() bool { return slices.Contains(healthRanks, v) }

// Rank orders verdicts: the greater, the worse. A verdict that is not known ranks as unknown.
func (v HealthVerdict) Rank() int {
	if i := slices.Index(healthRanks, v); i >= 0 {
		return i
	}
	return slices.Index(healthRanks, HealthUnknown)
}

// Worse returns the worse of two verdicts.
func (v HealthVerdict) Worse(w HealthVerdict) HealthVerdict {
	if w.Rank() > v.Rank() {
		return w
	}
	return v
}

// HealthReason is a field of a GPU with the value that gave the verdict.
type HealthReason struct {
	Verdict HealthVerdict `json:"verdict"`
	Field   string        `json:"field"` // see HealthFields; or kernel, look, kernel_log, missing
	Value   string        `json:"value"`
	Message string        `json:"message"`
	Since   time.Time     `json:"since"` // by the node's clock
}

// GPUHealthOf is the health of a GPU. Without a uuid it is a GPU on the bus that no library lists.
type GPUHealthOf struct {
	Vendor     string         `json:"vendor"`
	UUID       string         `json:"uuid,omitempty"`
	PCIAddress string         `json:"pci_address"`
	Verdict    HealthVerdict  `json:"verdict"`
	Reasons    []HealthReason `json:"reasons"` // the worst first; none for healthy
}

// HealthReport is what a node says of its GPUs. The node sends it only when a verdict or its reasons
// have changed.
type HealthReport struct {
	NodeID    string            `json:"node_id"`
	NodeEpoch int64             `json:"node_epoch"`
	BootID    string            `json:"boot_id"`
	At        time.Time         `json:"at"` // of the look, by the node's clock
	Verdict   HealthVerdict     `json:"verdict"`
	Drivers   map[string]string `json:"drivers,omitempty"` // version of each vendor's driver
	GPUs      []GPUHealthOf     `json:"gpus"`
	// Reasons concern no single GPU, such as a look that failed.
	Reasons []HealthReason `json:"reasons"`
}

// The bounds of a health report.
const (
	MaxHealthGPUs    = 64
	MaxHealthReasons = 8 // of a GPU
	maxHealthText    = 400
)

// Bound makes a report fit to be kept: texts are cleaned, lists are cut, and a verdict that is not known
// becomes unknown. A node's report is untrusted. The verdict of the node is never better than those of
// its GPUs and reasons.
func (r *HealthReport) Bound() {
	r.BootID = Clean(r.BootID, 64)
	if !r.Verdict.Valid() {
		r.Verdict = HealthUnknown
	}
	if len(r.GPUs) > MaxHealthGPUs {
		r.GPUs = r.GPUs[:MaxHealthGPUs]
		r.Verdict = r.Verdict.Worse(HealthUnknown) // of those that were cut off nothing is known
	}
	drivers := map[string]string{}
	for vendor, version := range r.Drivers {
		if len(drivers) < 4 {
			drivers[Clean(vendor, 20)] = Clean(version, 60)
		}
	}
	r.Drivers = drivers
	r.Reasons = boundReasons(r.Reasons, &r.Verdict)
	for i := range r.GPUs {
		g := &r.GPUs[i]
		g.Vendor, g.UUID, g.PCIAddress = Clean(g.Vendor, 20), Clean(g.UUID, 80), Clean(g.PCIAddress, 20)
		if !g.Verdict.Valid() {
			g.Verdict = HealthUnknown
		}
		g.Reasons = boundReasons(g.Reasons, &g.Verdict)
		r.Verdict = r.Verdict.Worse(g.Verdict)
	}
	if r.GPUs == nil {
		r.GPUs = []GPUHealthOf{}
	}
}

// boundReasons makes reasons fit to be kept, the worst first, and the verdict no better than they are.
func boundReasons(all []HealthReason, verdict *HealthVerdict) []HealthReason {
	for i := range all {
		x := &all[i]
		if !x.Verdict.Valid() {
			x.Verdict = HealthUnknown
		}
		x.Field, x.Value, x.Message = Clean(x.Field, 60), Clean(x.Value, 100), Clean(x.Message, maxHealthText)
		*verdict = verdict.Worse(x.Verdict)
	}
	slices.SortStableFunc(all, func(a, b HealthReason) int { return b.Verdict.Rank() - a.Verdict.Rank() })
	if len(all) > MaxHealthReasons {
		all = all[:MaxHealthReasons]
	}
	if all == nil {
		all = []HealthReason{}
	}
	return all
}

// HealthField is a value that a look reads of a GPU.
type HealthField struct {
	Name string
	Text bool // a text; otherwise a whole number
	Doc  string
}

// healthFields are the fields that rules of resolver profiles may name. A switch is 0 or 1.
var healthFields = []HealthField{
	{"answers", false, "1: its library lists the GPU; 0: it is on the bus alone"},
	{"ecc_uncorrected", false, "uncorrectable memory errors since the driver last initialised the GPU"},
	{"ecc_corrected", false, "corrected memory errors since then"},
	{"ecc_total", false, "uncorrectable memory errors over the GPU's life"},
	{"remapped_rows", false, "rows of memory that are replaced by others"},
	{"remap_pending", false, "rows or pages that are replaced at the next reset"},
	{"remap_failed", false, "rows or pages that could not be replaced"},
	{"retired_pages", false, "pages of memory that are out of use"},
	{"pcie_width", false, "lanes of the PCIe link"},
	{"pcie_width_max", false, "lanes that GPU and slot have"},
	{"pcie_generation", false, "of the PCIe link; falls while the GPU is idle"},
	{"pcie_generation_max", false, "that GPU and slot have"},
	{"pcie_replays", false, "repeated packets of the PCIe link"},
	{"nvlink_active", false, "NVLinks that are up; missing in MIG mode"},
	{"nvlink_replays", false, "repeated packets of all NVLinks"},
	{"nvlink_recoveries", false, "links of NVLink that had to be trained again"},
	{"temperature", false, "of the GPU, in degrees Celsius"},
	{"temperature_limit", false, "from which the GPU slows itself down"},
	{"memory_temperature", false, "in degrees Celsius"},
	{"power_mw", false, "drawn now, in milliwatts"},
	{"throttle_hw_slowdown", false, "the hardware holds the clocks back: heat or power"},
	{"throttle_hw_thermal", false, "the hardware holds the clocks back for heat"},
	{"throttle_hw_power", false, "the hardware holds the clocks back: the power supply asks for it"},
	{"throttle_sw_thermal", false, "the driver holds the clocks back for heat"},
	{"throttle_sw_power", false, "the driver holds the clocks back for the power limit, as under load"},
	{"xid", false, "number of an Xid line of the kernel's log that is no application's fault"},
	{"recovery", true, "the library's advice: none, gpu_reset, node_reboot, drain_p2p, drain_and_reset, recover_imex_domain"},
	{"fabric", true, "not_supported, not_started, in_progress, completed, failed, unhealthy"},
	{"partition", true, "MIG or partition mode"},
}

// HealthFields lists the fields that rules may name.
func HealthFields() []HealthField { return slices.Clone(healthFields) }

// HealthFieldNamed returns the field with a name.
func HealthFieldNamed(name string) (HealthField, bool) {
	i := slices.IndexFunc(healthFields, func(f HealthField) bool { return f.Name == name })
	if i < 0 {
		return HealthField{}, false
	}
	return healthFields[i], true
}
