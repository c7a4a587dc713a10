package broker

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// SKU is the composition of one kind of machine, with its wanted settings. A machine that does
// not match its SKU is hardware_mismatch.
type SKU struct {
	ID             string // mi300x.192g.8gpu
	Description    string
	GPUVendor      string // nvidia, amd; empty: no GPUs
	GPUModel       string // whole words of the GPU name that the vendor's library gives; empty: any
	GPUCount       int
	GPUMemoryBytes uint64 // of each
	NICs           []string
	BootDisk       BootDiskRule
	GPUSettings    taskcatalog.GPUSettings // wanted settings; an omitted setting may have any value
	ScrubFloor     ScrubFloor
	// DPUDisks says that a DPU may present the disks to such machines: an erase then reaches only
	// as far as the DPU permits.
	DPUDisks bool
	// Offer is not part of the state of runs, which keep the SKU that they began with.
	Offer Offer `json:"-"`
	// Bindings are, like the offer, not part of the state of runs.
	Bindings  OperationBindings `json:"-"`
	CreatedAt time.Time
	UpdatedAt time.Time
}

// BootDiskRule says which disk a machine boots from.
type BootDiskRule struct {
	// Pattern is a case-insensitive regular expression over a disk's model, name and id_path.
	Pattern string `json:"pattern"`
	// Pick decides between several matching disks; empty: several matches are a mismatch.
	Pick BootDiskPick `json:"pick"`
}

// BootDiskPick is a way to decide between disks.
type BootDiskPick string

// The ways.
const (
	PickNone     BootDiskPick = ""
	PickSmallest BootDiskPick = "smallest"
	PickLargest  BootDiskPick = "largest"
	PickFirst    BootDiskPick = "first" // by MAAS's id
)

// BootDiskPattern is the default pattern of a new SKU: a BOSS card, or an M.2 disk.
const BootDiskPattern = `boss|boot optimized|m\.2`

// ScrubFloor is the minimum that a scrub of such a machine must reach, whatever a site's policy
// says.
type ScrubFloor struct {
	MinCoveragePercent float64 `json:"min_coverage_percent"` // 0: the vendor's default
	RequireReset       bool    `json:"require_reset"`
}

// NewSKU is a SKU with all defaults.
func NewSKU() SKU {
	return SKU{NICs: []string{}, BootDisk: BootDiskRule{Pattern: BootDiskPattern}, Offer: NewOffer()}
}

// SKUForm is the form of a SKU's id.
var SKUForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

const (
	maxGPUs    = 64
	maxNICs    = 64
	maxPattern = 200     // bytes
	maxGPUSize = 4 << 40 // bytes
)

// Check refuses an invalid SKU. Code: sku_invalid.
func (s *SKU) Check() error {
	bad := func(format string, args ...any) error {
		return Errorf(Invalid, "sku_invalid", "cannot store SKU %s: "+format, append([]any{cleanText(s.ID)}, args...)...)
	}
	hasGPUs := s.GPUVendor != ""
	switch {
	case !SKUForm.MatchString(s.ID):
		return bad("its id must be 1 to 63 letters, digits, '.', '_' and '-', such as mi300x.192g.8gpu")
	case len(s.Description) > 500 || taskcatalog.Clean(s.Description, 1000) != s.Description:
		return bad("its description is too long or has control characters")
	case hasGPUs && s.GPUVendor != "nvidia" && s.GPUVendor != "amd":
		return bad("gpu_vendor %q is neither nvidia nor amd", cleanText(s.GPUVendor))
	case len(s.GPUModel) > 100 || taskcatalog.Clean(s.GPUModel, 200) != s.GPUModel:
		return bad("gpu_model is too long or has control characters")
	case s.GPUModel != "" && len(words(s.GPUModel)) == 0:
		return bad("gpu_model %q has neither a letter nor a digit", cleanText(s.GPUModel))
	case hasGPUs != (s.GPUCount > 0) || !hasGPUs && (s.GPUModel != "" || s.GPUMemoryBytes != 0):
		return bad("gpu_vendor and gpu_count go together, and gpu_model and gpu_memory_bytes with them")
	case s.GPUCount < 0 || s.GPUCount > maxGPUs:
		return bad("gpu_count %d is not between 0 and %d", s.GPUCount, maxGPUs)
	case s.GPUMemoryBytes > maxGPUSize:
		return bad("gpu_memory_bytes is more than 4 TiB")
	case len(s.NICs) > maxNICs:
		return bad("it has more than %d nics", maxNICs)
	case len(s.BootDisk.Pattern) > maxPattern || s.BootDisk.Pattern == "":
		return bad("boot_disk.pattern must have 1 to %d bytes", maxPattern)
	case s.ScrubFloor.MinCoveragePercent != 0 && !(s.ScrubFloor.MinCoveragePercent >= 50 && s.ScrubFloor.MinCoveragePercent <= 100):
		return bad("scrub_floor.min_coverage_percent is not between 50 and 100")
	}
	if _, err := regexp.Compile(s.BootDisk.Pattern); err != nil {
		return bad("boot_disk.pattern is not a regular expression")
	}
	switch s.BootDisk.Pick {
	case PickNone, PickSmallest, PickLargest, PickFirst:
	default:
		return bad("boot_disk.pick %q is not one of smallest, largest, first", cleanText(string(s.BootDisk.Pick)))
	}
	seen := map[string]bool{}
	for _, nic := range s.NICs {
		if !ifaceForm.MatchString(nic) || seen[nic] {
			return bad("nic %q is not an interface name, or is listed twice", cleanText(nic))
		}
		seen[nic] = true
	}
	for name, value := range map[string]string{
		"partition": s.GPUSettings.Partition, "memory_partition": s.GPUSettings.MemoryPartition,
		"compute_mode": s.GPUSettings.ComputeMode, "clocks": s.GPUSettings.Clocks,
	} {
		if len(value) > 64 || taskcatalog.Clean(value, 128) != value {
			return bad("gpu_settings.%s is too long or has control characters", name)
		}
	}
	if why := s.Offer.fault(s.GPUCount); why != "" {
		return bad("%s", why)
	}
	return nil
}

// GPUDifference says how the GPUs differ from the SKU; empty: no difference. Reported memory
// excludes the part that the vendor reserves, so a difference of up to a twentieth is allowed.
func (s SKU) GPUDifference(gpus []taskcatalog.GPUFacts) string {
	if len(gpus) != s.GPUCount {
		return fmt.Sprintf("the machine has %d GPUs, and SKU %s has %d", len(gpus), s.ID, s.GPUCount)
	}
	for _, g := range gpus {
		name := "GPU " + taskcatalog.Clean(g.PCIAddress, 32)
		switch {
		case g.Vendor != s.GPUVendor:
			return fmt.Sprintf("the vendor of %s is %s, and SKU %s has GPUs of %s", name, taskcatalog.Clean(g.Vendor, 32), s.ID,
				s.GPUVendor)
		case !s.names(g.Name):
			return fmt.Sprintf("the model of %s is %s, and SKU %s has %s (the model of a SKU is whole words of the vendor's name, such as H100 or A100-SXM4-80GB)", name, taskcatalog.Clean(g.Name, 64), s.ID, s.GPUModel)
		case s.GPUMemoryBytes == 0:
		case g.MemoryBytes == nil:
			return fmt.Sprintf("%s does not report its memory size", name)
		case *g.MemoryBytes < s.GPUMemoryBytes-s.GPUMemoryBytes/20 || *g.MemoryBytes > s.GPUMemoryBytes+s.GPUMemoryBytes/20:
			return fmt.Sprintf("%s has %d MiB of memory, and GPUs of SKU %s have %d", name, *g.MemoryBytes>>20, s.ID, s.GPUMemoryBytes>>20)
		}
	}
	return ""
}

// names reports whether the words of the SKU's model appear in the vendor's name of a GPU, whole
// and in order: H200 does not match GH200, A10 not A100, L40 not L40S.
func (s SKU) names(gpu string) bool {
	model, all := words(s.GPUModel), words(gpu)
	for i := range len(all) - len(model) + 1 {
		if slices.Equal(all[i:i+len(model)], model) && len(model) > 0 {
			return true
		}
	}
	return s.GPUModel == ""
}

// words returns the runs of letters and digits, in lower case.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
