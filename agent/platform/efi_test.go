package platform

import (
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

func TestWhatDecidesABootIsRead(t *testing.T) {
	l := newLab(t)
	got := l.whole(taskcatalog.CheckEFI)
	var names []string
	for _, line := range got {
		name, _, _ := strings.Cut(line, " = ")
		names = append(names, name)
	}
	if want := []string{"Boot0001", "BootOrder", "MokListRT", "PK", "SecureBoot", "SetupMode", "db"}; !slices.Equal(names, want) {
		t.Errorf("read %q, want %q", names, want)
	}
	for _, want := range []string{"BootOrder = 0001 0000", "SecureBoot = on", "SetupMode = off"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not in %q", want, got)
		}
	}
}

// The value of a missing variable is in baselines that other releases took.
func TestAMissingSecureBootHasTheValueThatBaselinesHave(t *testing.T) {
	l := newLab(t)
	l.lose("sys/firmware/efi/efivars/SecureBoot-" + global)
	if got, want := l.whole(taskcatalog.CheckEFI), "SecureBoot = the firmware does not have it"; !slices.Contains(got, want) {
		t.Errorf("%q is not in %q", want, got)
	}
}

// Each change is a way for a tenant with root to stay, or to prepare this.
func TestAChangeOfWhatBootsMakesADifference(t *testing.T) {
	const dir = "sys/firmware/efi/efivars/"
	for name, change := range map[string]func(l *lab){
		"another order":         func(l *lab) { l.put(dir+"BootOrder-"+global, "\x07\x00\x00\x00\x00\x00\x01\x00") },
		"an entry changed":      func(l *lab) { l.put(dir+"Boot0001-"+global, "\x07\x00\x00\x00debiam") },
		"an entry gone":         func(l *lab) { l.lose(dir + "Boot0001-" + global) },
		"a new entry":           func(l *lab) { l.put(dir+"Boot00AF-"+global, "\x07\x00\x00\x00x") },
		"the next boot":         func(l *lab) { l.put(dir+"BootNext-"+global, "\x07\x00\x00\x00\x01\x00") },
		"a driver":              func(l *lab) { l.put(dir+"Driver0000-"+global, "\x07\x00\x00\x00x") },
		"what prepares":         func(l *lab) { l.put(dir+"SysPrep0000-"+global, "\x07\x00\x00\x00x") },
		"Secure Boot off":       func(l *lab) { l.put(dir+"SecureBoot-"+global, "\x06\x00\x00\x00\x00") },
		"Secure Boot gone":      func(l *lab) { l.lose(dir + "SecureBoot-" + global) },
		"setup mode":            func(l *lab) { l.put(dir+"SetupMode-"+global, "\x06\x00\x00\x00\x01") },
		"another platform key":  func(l *lab) { l.put(dir+"PK-"+global, "\x27\x00\x00\x00kez") },
		"a key more":            func(l *lab) { l.put(dir+"db-"+security, "\x27\x00\x00\x00keys+") },
		"a revocation undone":   func(l *lab) { l.put(dir+"dbx-"+security, "\x27\x00\x00\x00") },
		"shim's own keys":       func(l *lab) { l.put(dir+"MokListRT-"+shim, "\x06\x00\x00\x00moks+") },
		"shim's switch":         func(l *lab) { l.put(dir+"MokSBStateRT-"+shim, "\x06\x00\x00\x00\x01") },
		"a key to be confirmed": func(l *lab) { l.put(dir+"MokNew-"+shim, "\x07\x00\x00\x00x") },
	} {
		l := newLab(t)
		before := l.whole(taskcatalog.CheckEFI)
		change(l)
		if slices.Equal(l.whole(taskcatalog.CheckEFI), before) {
			t.Errorf("%s makes no difference", name)
		}
	}
	l := newLab(t)
	before := l.whole(taskcatalog.CheckEFI)
	l.put("sys/firmware/efi/efivars/BootCurrent-"+global, "\x06\x00\x00\x00\x00\x00")
	l.put("sys/firmware/efi/efivars/BootOrder-"+security, "of somebody else")
	if got := l.whole(taskcatalog.CheckEFI); !slices.Equal(got, before) {
		t.Errorf("what was booted makes a difference: %q", got)
	}
}

func TestVariablesThatCannotBeReadAreAnErrorAndHideNoOther(t *testing.T) {
	const dir = "sys/firmware/efi/efivars/"
	for name, spoil := range map[string]func(l *lab){
		"an order of odd length":      func(l *lab) { l.put(dir+"BootNext-"+global, "\x07\x00\x00\x00\x01") },
		"an order of no length":       func(l *lab) { l.put(dir+"BootNext-"+global, "\x07") },
		"a switch of two bytes":       func(l *lab) { l.put(dir+"AuditMode-"+global, "\x06\x00\x00\x00\x01\x01") },
		"a switch of a third way":     func(l *lab) { l.put(dir+"AuditMode-"+global, "\x06\x00\x00\x00\x02") },
		"a key without attributes":    func(l *lab) { l.put(dir+"KEK-"+global, "\x06") },
		"an entry that is not a file": func(l *lab) { l.put(dir+"Boot0002-"+global+"/x", "") },
		"a variable too large":        func(l *lab) { l.put(dir+"KEK-"+global, strings.Repeat("x", maxVariable+1)) },
	} {
		l := newLab(t)
		before := l.whole(taskcatalog.CheckEFI)
		spoil(l)
		got, absent, err := l.read(taskcatalog.CheckEFI)
		if err == nil || absent != "" || !slices.Equal(got, before) {
			t.Errorf("%s: %q, %q, %v", name, got, absent, err)
		}
	}
}

func TestAMachineThatShowsNoVariablesMustNotHaveBootedByEFI(t *testing.T) {
	l := newLab(t)
	l.lose("sys/firmware/efi/efivars")
	if got, absent, err := l.read(taskcatalog.CheckEFI); len(got) > 0 || absent != "" || err == nil || !strings.Contains(err.Error(), "efivarfs") {
		t.Errorf("booted by EFI: %q, %q, %v", got, absent, err)
	}
	l.lose("sys/firmware/efi")
	if got, absent, err := l.read(taskcatalog.CheckEFI); len(got) > 0 || absent == "" || err != nil {
		t.Errorf("not booted by EFI: %q, %q, %v", got, absent, err)
	}
}
