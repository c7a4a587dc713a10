package scrub

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// counter is a figure of a GPU's health that only grows until a reset sets it back.
type counter struct {
	message string // the message if the counter grew
	fault   bool   // the GPU is broken then; otherwise nobody can tell
	read    func(gpu.Health) *uint64
	// volatile counters start again with a reset.
	volatile bool
	// cleared names the vendor whose driver sets the counter back at each reading.
	cleared string
}

var counters = []counter{
	{message: "the GPU had uncorrectable memory errors", fault: true, read: func(h gpu.Health) *uint64 { return h.ECCTotal }},
	{
		message: "the GPU had uncorrectable memory errors", fault: true, volatile: true,
		read: func(h gpu.Health) *uint64 { return h.ECCUncorrected },
	},
	{message: "the GPU retired pages of its memory", fault: true, read: func(h gpu.Health) *uint64 { return h.BadPages }},
	{message: "the GPU remapped rows of its memory", read: func(h gpu.Health) *uint64 { return h.RemappedRows }},
	{message: "the GPU's links had errors", volatile: true, cleared: "amd", read: func(h gpu.Health) *uint64 { return h.LinkErrors }},
}

// grew compares each reading with the previous reading. NVIDIA's volatile counters are zero after a
// reset, so a non-zero value has grown since; AMD's driver may keep its counters over a reset.
func (c counter) grew(u *unit) bool {
	var was *uint64
	at := 0 // index of the reading was
	for i, look := range u.readings {
		is := c.read(look)
		if is == nil {
			continue
		}
		if was != nil {
			base := *was
			anew := c.volatile && at < u.restart && u.restart <= i && (u.device.Vendor == "nvidia" || *is < base)
			if anew || c.cleared == u.device.Vendor {
				base = 0
			}
			if *is > base {
				return true
			}
		}
		was, at = is, i
	}
	return false
}

// missingFigures returns the figures present in the first reading and missing in the last.
func missingFigures(looks []gpu.Health) []string {
	if len(looks) == 0 {
		return nil
	}
	return missing(looks[0], looks[len(looks)-1])
}

// Unreadable returns the settings present in the baseline that cannot be read now.
func Unreadable(was, is taskcatalog.GPUSettings) []string { return missing(was, is) }

// missing returns the JSON names of the fields that was has and is lacks. Unknown fields are
// omitted from the JSON.
func missing[T any](was, is T) []string {
	var names []string
	has := fields(is)
	for _, name := range slices.Sorted(maps.Keys(fields(was))) {
		if _, ok := has[name]; !ok {
			names = append(names, name)
		}
	}
	return names
}

func fields(v any) map[string]json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain numbers and texts always encode
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		panic(err)
	}
	return all
}
