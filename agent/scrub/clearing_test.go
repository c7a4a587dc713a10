package scrub

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// lay makes a machine of a few files; a text that begins with -> is a link.
func lay(t *testing.T, files map[string]string) *machine.Machine {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		full := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		if target, is := strings.CutPrefix(text, "->"); err == nil && is {
			err = os.Symlink(target, full)
		} else if err == nil {
			err = os.WriteFile(full, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m, err := machine.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

const dwords = "sys/module/nvidia/parameters/NVreg_RegistryDwords"

// loaded is a machine with the files of a driver without options, except for the given file.
func loaded(t *testing.T, name, text string) *machine.Machine {
	files := map[string]string{dwords: "\n", "proc/driver/nvidia/params": "RegistryDwords: \"\"\nMobile: 1\n", "proc/driver/nvidia/registry": "Binary: \"\"\n"}
	files[name] = text
	return lay(t, files)
}

func TestADriverThatDoesNotClearIsFoundWhereverItWasTold(t *testing.T) {
	t.Parallel()
	for value, off := range map[string]bool{
		"RMDisableScrubOnFree=1": true, "a=b;RMDisableScrubOnFree=0x1": true, "rmdisablefastscrubber=1": true,
		"RMDisableScrubOnFree=-1": true, "RM Disable ScrubOnFree = 01": true, "RMDisableScrubOnFree": true, "RMDisableScrubOnFree=0;RMDisableScrubOnFree=1": true,
		"RMDisableScrubOnFree=0": false, "RMDisableScrubOnFree=0x0;a=1": false, "": false,
		// Longer than the node's facts keep of a value.
		strings.Repeat("pad=0;", 1000) + "RMDisableScrubOnFree=1": true,
	} {
		for name, text := range map[string]string{
			dwords: value + "\n", "proc/driver/nvidia/params": "RegistryDwords: \"" + value + "\"\nMobile: 1\n",
			"proc/driver/nvidia/registry": "Binary: \"" + value + "\"\n", "proc/driver/nvidia/gpus/0000:3b:00.0/registry": "Binary: \"" + value + "\"\n",
			"sys/module/nvidia/parameters/NVreg_RegistryDwordsPerDevice": "pci=0000:3b:00.0;" + value + "\n",
		} {
			why, err := ClearingOff(loaded(t, name, text), "nvidia")
			if err != nil || (why != "") != off || off && !strings.Contains(why, name) {
				t.Errorf("%s with %.60q: %q, %v", name, value, why, err)
			}
		}
	}
}

func TestALoadedDriverThatDoesNotSayIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"proc/driver/nvidia/params": "->/nowhere", "proc/driver/nvidia/registry": "->/nowhere", dwords: "->/nowhere",
	} {
		if why, err := ClearingOff(loaded(t, name, text), "nvidia"); err == nil {
			t.Errorf("%s cannot be read: %q", name, why)
		}
	}
	for vendor, m := range map[string]*machine.Machine{"nvidia": lay(t, nil), "amd": loaded(t, dwords, "RMDisableScrubOnFree=1")} {
		if why, err := ClearingOff(m, vendor); why != "" || err != nil {
			t.Errorf("%s without its driver: %q, %v", vendor, why, err)
		}
	}
}

func TestAScrubAsksWhetherTheDriverClears(t *testing.T) {
	t.Parallel()
	for verdict, answer := range map[taskcatalog.Verdict]struct {
		why string
		err error
	}{taskcatalog.VerdictNotClean: {why: "it does not"}, taskcatalog.VerdictInconclusive: {err: errTest}} {
		l := newLab(t, "nvidia")
		l.Clearing = func(_ *machine.Machine, vendor string) (string, error) { return answer.why, answer.err }
		if res := l.good(); res.Verdict != verdict || l.of(res, 0).Code != taskcatalog.CodeDriverScrubDisabled {
			t.Errorf("%s, %+v", res.Verdict, l.of(res, 0))
		}
	}
}
