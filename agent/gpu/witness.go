package gpu

import (
	"regexp"
	"slices"
	"strings"
)

// ResetWitnesses returns the evidence that a GPU was reset, from its state before and the states
// read since, in order: a text for each source, such as "counters: ecc_uncorrected energy_mj".
// Policy requires two.
//
//	counters  some are lower than before. The driver restarts them whenever it
//	          initialises the GPU, so all of them together are one source
//	fabric    the GPU was in the fabric, had to join again, and did. The driver
//	          also does so when it initialises the GPU: unless persistence kept
//	          the GPU up, this counts as a part of the source counters
//	owed      a change that was pending a reset, and that nothing else applies,
//	          is done
//
// KernelReset returns the evidence of the kernel's log.
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
	if fabricJoined(before) && fabricJoined(now) && slices.ContainsFunc(since, fabricJoining) {
		if kept := before.Settings.Persistence; kept != nil && *kept {
			fabric = []string{"joined again"}
		} else {
			taken = append(taken, "fabric")
		}
	}
	owed = appliedChanges(before, now)
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

func fabricJoined(s State) bool { return s.Health.Fabric == "completed" }

func fabricJoining(s State) bool {
	return s.Health.Fabric == "in_progress" || s.Health.Fabric == "not_started"
}

// appliedChanges returns the pending changes that are done.
func appliedChanges(was, is State) []string {
	var all []string
	if mode := was.Pending.Partition; mode != "" && mode != was.Settings.Partition && mode == is.Settings.Partition &&
		is.Pending.Partition == "" {
		all = append(all, "partition")
	}
	if on := was.Pending.ECC; on != nil && differs(on, was.Settings.ECC) && is.Settings.ECC != nil && *is.Settings.ECC == *on &&
		is.Pending.ECC == nil {
		all = append(all, "ecc")
	}
	// AMD's pending pages are retired by the driver, in its own time.
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

// KernelReset returns the evidence in the lines that the kernel logged since the reset was
// requested: empty if no line reports a reset of the function at pciAddress. amdgpu logs each
// reset; NVIDIA's driver logs no successful reset; the kernel itself logs the resets requested
// through sysfs.
func KernelReset(pciAddress string, lines []string) string {
	told := regexp.MustCompile(`(^| )` + regexp.QuoteMeta(strings.ToLower(pciAddress)) + `: (.*GPU reset\([0-9]+\) succeeded|reset done$)`)
	for _, line := range lines {
		if told.MatchString(line) {
			return "kernel: it logged the reset"
		}
	}
	return ""
}
