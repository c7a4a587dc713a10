package scrub

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

const (
	nvidiaModule = "/sys/module/nvidia"
	nvidiaProc   = "/proc/driver/nvidia"
)

// ClearingOff returns which option of the kernel module keeps the driver from clearing freed
// memory, or "". A tenant with root can set such an option permanently. ClearingOff reads the
// driver's own files in full, not the node's facts: the facts are cut to a length that a tenant can
// exceed. An error means that a loaded driver's options could not be read.
func ClearingOff(m *machine.Machine, vendor string) (why string, err error) {
	if vendor != "nvidia" {
		return "", nil
	}
	if loaded, err := m.Has(nvidiaModule); err != nil || !loaded {
		return "", err
	}
	files, err := nvidiaOptions(m)
	if err != nil {
		return "", err
	}
	for _, name := range files {
		raw, err := m.ReadFile(name, 4<<20)
		if err != nil {
			return "", fmt.Errorf("cannot read the driver's options: %w", err)
		}
		if key := scrubDisabled(string(raw)); key != "" {
			return fmt.Sprintf("the driver does not clear what is freed: %s holds %s (see /etc/modprobe.d and the kernel's command line)",
				name, key), nil
		}
	}
	return "", nil
}

// nvidiaOptions returns the files with all options given to the driver: the module's parameters,
// the driver's own view of them, and the options of single GPUs.
func nvidiaOptions(m *machine.Machine) ([]string, error) {
	files := []string{nvidiaProc + "/params", nvidiaProc + "/registry"}
	parameters, err1 := m.Names(nvidiaModule + "/parameters")
	for _, name := range parameters {
		files = append(files, path.Join(nvidiaModule, "parameters", name))
	}
	gpus, err2 := m.Names(nvidiaProc + "/gpus")
	for _, gpu := range gpus {
		// Some versions of the driver have no such file per GPU.
		name := path.Join(nvidiaProc, "gpus", gpu, "registry")
		has, err := m.Has(name)
		if err != nil {
			return nil, err
		}
		if has {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return files, errors.Join(err1, err2)
}

var scrubKey = lazyregexp.New(`(?i)RM(?:DisableScrubOnFree|DisableFastScrubber)(?:[=:]([^;,"]*))?`)

// scrubDisabled finds a key that disables clearing with any value but zero. The driver removes
// white space before it parses, so white space may stand anywhere.
func scrubDisabled(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
	for _, found := range scrubKey.FindAllStringSubmatch(text, -1) {
		value := strings.TrimPrefix(strings.ToLower(found[1]), "0x")
		if value == "" || strings.Trim(value, "0") != "" {
			return found[0]
		}
	}
	return ""
}
