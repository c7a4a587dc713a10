package steps

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// An option of a source wins over the arguments of apt-get: such a source is found before apt runs.
func TestASourceThatNeedsNoSignatureIsRefused(t *testing.T) {
	const list, stanzas = "etc/apt/sources.list.d/site.list", "etc/apt/sources.list.d/site.sources"
	stanza := func(fields string) string {
		return "Types: deb\nURIs: https://a.example/\nSuites: stable\nComponents: main\n" + fields
	}
	for what, c := range map[string]struct {
		file, text string
		taken      bool
	}{
		"signed":                      {"etc/apt/sources.list", "# [trusted=yes]\ndeb [signed-by=/k.gpg arch=amd64] https://a.example/ ./ # [trusted=yes]\n", true},
		"without options":             {list, "deb https://[::1]/ stable main\n", true},
		"trusted=no":                  {list, "deb [trusted=no allow-weak=false] https://a.example/ ./\n", true},
		"a comment":                   {list, "  # deb [trusted=yes] https://a.example/ ./\n", true},
		"a file that apt leaves":      {"etc/apt/sources.list.d/site.save", "deb [trusted=yes] https://a.example/ ./\n", true},
		"trusted":                     {"etc/apt/sources.list", "deb https://a.example/ ./\ndeb [trusted=yes] https://b.example/ ./\n", false},
		"trusted, among others":       {list, "deb [ arch=amd64 trusted=yes ] https://a.example/ ./\n", false},
		"trusted, behind brackets":    {list, "deb [arch=[x] trusted=yes] https://a.example/ ./\n", false},
		"trusted, with a comment":     {list, "deb [arch=amd64#x trusted=yes] https://a.example/ ./\n", false},
		"trusted, quoted":             {list, "deb [trusted=\"yes\"] https://a.example/ ./\n", false},
		"trusted, encoded":            {list, "deb [%74rusted=ye%73] https://a.example/ ./\n", false},
		"trusted, added":              {list, "deb [trusted+=yes] https://a.example/ ./\n", false},
		"trusted, by what is no word": {list, "deb [trusted=maybe] https://a.example/ ./\n", false},
		"sources of code":             {list, "deb-src [Trusted=1] https://a.example/ ./\n", false},
		"insecure":                    {list, "deb [allow-insecure=yes] https://a.example/ ./\n", false},
		"weak":                        {list, "deb [allow-weak=yes] https://a.example/ ./\n", false},
		"downgraded":                  {list, "deb [allow-downgrade-to-insecure=yes] https://a.example/ ./\n", false},
		"a stanza that is signed":     {stanzas, stanza("Signed-By: /k.gpg\nTrusted: no\n"), true},
		"a stanza that is off":        {stanzas, stanza("Trusted: yes\nEnabled: no\n") + "\n" + stanza(""), true},
		"a comment in a stanza":       {stanzas, stanza("# Trusted: yes\n"), true},
		"a trusted stanza":            {stanzas, stanza("Trusted: yes\n"), false},
		"a trusted stanza, off again": {stanzas, stanza("Trusted: yes") + "\n\n" + stanza("Enabled: no\n"), false},
		"a stanza on two lines":       {stanzas, stanza("trusted:\n# or not\n yes\n"), false},
		"a stanza behind another":     {stanzas, stanza("") + "\n\n" + stanza("Trusted: yes"), false},
		"an insecure stanza":          {stanzas, stanza("Allow-Insecure: yes\n"), false},
		"a weak stanza":               {stanzas, stanza("Allow-Weak: yes\n"), false},
		"a stanza downgraded":         {stanzas, stanza("Allow-Downgrade-To-Insecure: yes\n"), false},
	} {
		h, dir := hosttest.Box(t)
		hosttest.Put(t, dir, c.file, c.text)
		err := signedSources(h.Machine)
		if c.taken {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if taskcatalog.CodeOf(err, "") != CodePackageUntrusted || !strings.Contains(err.Error(), "/"+c.file) {
			t.Errorf("%s: %v, want %s that names the file", what, err, CodePackageUntrusted)
		}
	}
}

func TestSourcesAreBounded(t *testing.T) {
	h, dir := hosttest.Box(t)
	hosttest.OK(t, signedSources(h.Machine)) // a machine without sources
	hosttest.Put(t, dir, sourceFile, strings.Repeat("#", maxSourceBytes+1))
	if err := signedSources(h.Machine); err == nil || !strings.Contains(err.Error(), sourceFile) {
		t.Errorf("a file that is not read to its end: %v", err)
	}
}

// Nothing runs while a source needs no signature.
func TestNoPackageIsInstalledWhileASourceNeedsNoSignature(t *testing.T) {
	h, dir := hosttest.Box(t)
	hosttest.Put(t, dir, "var/lib/dpkg/status", "Package: dpkg\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.21\n\n")
	hosttest.Put(t, dir, "etc/apt/sources.list.d/site.list", "deb [trusted=yes] https://a.example/ ./\n")
	systemd := &hosttest.Systemd{}
	h.Systemd = systemd
	_, err := do(t, aStep(t, h, "package.install", Args{"packages": []string{"slurmd=23.1-1"}}))
	if taskcatalog.CodeOf(err, "") != CodePackageUntrusted || !Final(CodePackageUntrusted) || len(systemd.Asked) > 0 {
		t.Errorf("%v, and systemd was asked for %q", err, systemd.Asked)
	}
}
