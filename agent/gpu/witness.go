package gpu

import (
	"regexp"
	"slices"
	"strings"
)

// ResetWitnesses says what shows that a GPU was reset, from its state before and
// those read since, in their order: one text for each source, such as
// "counters: ecc_uncorrected energy_mj". Policy asks for two.
//
//	counters  some are lower than they were. The driver begins them anew whenever
//	          it takes the GPU up, so all of them together are one source
//	fabric    the GPU had joined it, had to join it again, and did. The driver
//	          does that too when it takes the GPU up: where it was not told to keep
//	          the GPU up (persistence), this is a word of the same source
//	owed      what waited for a reset, and nothing else ends, is done
//
// What the kernel said of it is KernelReset's.
func ResetWitnesses(before State, since ...State) []string {
	if len(since) == 0 {
		return nil
	}
	var taken, owed, fabric []string
	for name, was := range before.Counters {
		if slices.ContainsFunc(since, func(s State) bool { is, still := s.Counters[name]; return still && is < was }) {
			taken = append(taken, name)
		}
	}
	now := since[len(since)-1]
	if joined(before) && joined(now) && slices.ContainsFunc(since, joining) {
		if kept := before.Settings.Persistence; kept != nil && *kept {
			fabric = []string{"joined again"}
		} else {
			taken = append(taken, "fabric")
		}
	}
	owed = paid(before, now)
	var all []string
	for _, source := range []struct {
		name  string
		words []string
	}{{"counters", taken}, {"fabric", fabric}, {"owed", owed}} {
		if len(source.words) > 0 {
			slices.Sort(source.words)
			all = append(all, source.name+": "+strings.Join(source.words, " "))
		}
	}
	return all
}

func joined(s State) bool { return s.Health.Fabric == "completed" }

func joining(s State) bool {
	return s.Health.Fabric == "in_progress" || s.Health.Fabric == "not_started"
}

// paid is what waited for a reset and is done.
func paid(was, is State) []string {
	var all []string
	if mode := was.Pending.Partition; mode != "" && mode != was.Settings.Partition && mode == is.Settings.Partition && is.Pending.Partition == "" {
		all = append(all, "partition")
	}
	if on := was.Pending.ECC; on != nil && differs(on, was.Settings.ECC) && is.Settings.ECC != nil && *is.Settings.ECC == *on && is.Pending.ECC == nil {
		all = append(all, "ecc")
	}
	// Pages of AMD's that wait are retired by the driver, in its own time.
	rows := was.Health.RemapPending
	if rows != nil && *rows && was.Health.BadPages == nil && is.Health.RemapPending != nil && !*is.Health.RemapPending {
		all = append(all, "row_remap")
	}
	if advice := was.Health.Recovery; (advice == "gpu_reset" || advice == "drain_and_reset") && is.Health.Recovery == "none" {
		all = append(all, "recovery_action")
	}
	return all
}

func differs(a, b *bool) bool { return b != nil && *a != *b }

// KernelReset is the witness of the kernel's log, of the lines that it logged since
// the reset was asked for: empty where it says of no reset of the function at
// pciAddress. amdgpu tells of each; NVIDIA's driver of none that went well; the
// kernel itself of those that it was asked for through sysfs.
func KernelReset(pciAddress string, lines []string) string {
	told := regexp.MustCompile(`(^| )` + regexp.QuoteMeta(strings.ToLower(pciAddress)) + `: (.*GPU reset\([0-9]+\) succeeded|reset done$)`)
	for _, line := range lines {
		if told.MatchString(line) {
			return "kernel: it logged the reset"
		}
	}
	return ""
}
