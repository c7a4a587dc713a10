package platform

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hostler/hostler/taskcatalog"
)

// fit reports settings that must not leave a parser.
func fit(t *testing.T, all []taskcatalog.PlatformSetting) {
	t.Helper()
	for _, s := range all {
		if s.Name == "" || len(s.Name) > maxName || len(s.Value) > maxValue || !utf8.ValidString(s.Name+s.Value) || strings.ContainsFunc(s.Name+s.Value, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
			t.Errorf("%q = %q", s.Name, s.Value)
		}
	}
}

func handwritten(f *testing.F, files ...string) {
	for _, file := range files {
		raw, err := os.ReadFile("testdata/handwritten/" + file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
}

func FuzzDevice(f *testing.F) {
	handwritten(f, "mc_info")
	f.Fuzz(func(t *testing.T, raw []byte) {
		all, err := parseDevice(raw)
		if err == nil && len(all) != len(deviceFields)+1 {
			t.Errorf("%d settings", len(all))
		}
		fit(t, all)
	})
}

func FuzzChannel(f *testing.F) {
	handwritten(f, "channel_lan", "channel_bus")
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := parseChannel(1, raw)
		if err == nil && (len(c.settings) == 0 || c.lan && len(c.settings) != 3) {
			t.Errorf("%d settings of a channel", len(c.settings))
		}
		fit(t, c.settings)
	})
}

func FuzzUsers(f *testing.F) {
	handwritten(f, "users")
	f.Fuzz(func(t *testing.T, raw []byte) {
		all, err := parseUsers(1, raw)
		if err == nil && (len(all) < 2 || len(all) > maxUsers+1 || bytes.Count(raw, []byte("\n")) < len(userFields)) {
			t.Errorf("%d settings", len(all))
		}
		fit(t, all)
	})
}

func FuzzLAN(f *testing.F) {
	handwritten(f, "lan")
	f.Fuzz(func(t *testing.T, raw []byte) {
		all, err := parseLAN(1, raw)
		if err == nil && len(all) == 0 {
			t.Error("a network of nothing")
		}
		fit(t, all)
	})
}

func FuzzSMBIOS(f *testing.F) {
	f.Add([]byte(smbios(0, 1, 17)))
	f.Add([]byte(smbios(0, 38)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if has, err := hasManagementController(raw); has && err != nil {
			t.Error("both a BMC and an error")
		}
	})
}

func FuzzVariable(f *testing.F) {
	f.Add("BootOrder-"+global, []byte("\x07\x00\x00\x00\x01\x00"))
	f.Add("SecureBoot-"+global, []byte("\x06\x00\x00\x00\x01"))
	f.Add("db-"+security, []byte("\x27\x00\x00\x00key"))
	f.Fuzz(func(t *testing.T, file string, raw []byte) {
		read := reader(file)
		if read == nil {
			return
		}
		value, err := read(raw)
		if err != nil {
			return
		}
		name, _, _ := strings.Cut(file, "-")
		fit(t, []taskcatalog.PlatformSetting{setting("x"+name, value)})
	})
}

func FuzzVideoBIOS(f *testing.F) {
	f.Add("Model: \t\t NVIDIA H100\nVideo BIOS: \t 96.00.74.00.01\n")
	f.Fuzz(func(t *testing.T, text string) {
		fit(t, []taskcatalog.PlatformSetting{setting("gpu", parseVideoBIOS(text))})
	})
}
