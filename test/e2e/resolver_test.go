//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog"
)

const shipped = "../../resolver-profiles"

// push gives the node a profile set and waits for the node's confirmation.
func (s *site) push(version string, files ...string) {
	s.t.Helper()
	s.hostler(append([]string{"resolver", "push", "--nodes", "all", "--version", version}, files...)...)
	s.confirmed(version)
}

func (s *site) confirmed(version string) {
	s.t.Helper()
	err := s.Wait(s.ctx, "resolver profiles "+version, func() error {
		if r := s.resolver(); !r.Confirmed || r.InForce != version {
			return fmt.Errorf("the node has %q", r.InForce)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) resolver() (r api.NodeResolver) {
	s.t.Helper()
	s.json(&r, "resolver", "show", node)
	return r
}

// explains checks the winning rule of a step on the node, and the rule's profile.
func (s *site) explains(step, rule, profile string) {
	s.t.Helper()
	var e api.ResolverExplanation
	s.json(&e, "resolver", "explain", node, step)
	if e.Rule != rule || e.Profile != profile || e.Code != "" || len(e.Rules) < 5 {
		s.t.Errorf("%s resolves by rule %s to %s (%s); want %s, %s: %+v", step, e.Rule, e.Profile, e.Code, rule, profile, e.Rules)
	}
	if text := s.hostler("resolver", "explain", node, step); !strings.Contains(text, rule) || !strings.Contains(text, "wins") {
		s.t.Errorf("explain says\n%s", text)
	}
}

// facts returns the broker's facts about the node's hardware.
func (s *site) facts() taskcatalog.Facts {
	s.t.Helper()
	var f struct {
		Facts taskcatalog.Facts `json:"facts"`
	}
	s.json(&f, "node", "facts", node)
	return f.Facts
}

// TestABareNode runs every part that needs no GPU on a machine without a GPU.
func TestABareNode(t *testing.T) {
	s := newSite(t)
	s.restore(installed)
	s.hostler("resolver", "push", shipped, "--nodes", "all", "--version", "v1")
	s.enrol()
	s.part("HasItsProfilesBeforeItIsActiveAndKeepsThemOverARefusal", profilesOfABareNode)
	s.part("ProvesThatItsHardwareSyncWorksAndLeaksNoToken", hardwareSync)
	s.part("IsGivenGPUsOfAMDThatAreScrubbedAndReset", amdGPUs)
}

// bareProfiles run a program of the site's own on machines without a GPU.
const bareProfiles = `hardware_profiles:
  - name: site-bare
    match: { gpu.vendor: none }
    overrides: { gpu.runtime.check: site_check }
  - name: fallback
    match: {}
    overrides: {}
command_profiles:
  - id: site_check
    command: /usr/local/bin/site-check
    user: root
    timeout_seconds: 10
`

// profilesOfABareNode tests a profile set that is pushed, refused by the node itself, corrected,
// and rolled back.
func profilesOfABareNode(s *site) {
	if r := s.resolver(); r.InForce != "v1" || !r.Confirmed {
		s.t.Errorf("the node is active and has the profiles %+v", r)
	}
	s.explains("gpu.scrub.overwrite", "no-gpu", "builtin:none")
	if f := s.facts(); f.Keys["gpu.vendor"] != "none" || f.Keys["os.id"] != "debian" || len(f.GPUs) != 0 || len(f.PCI) == 0 {
		s.t.Errorf("the facts of the node are %+v", f)
	}

	set := s.Path("bare.yaml")
	write(s.t, set, bareProfiles)
	s.put("/usr/local/bin/site-check", []byte("\x7fELF is what a program begins with"), 0o755)
	s.root("chmod", "0777", "/usr/local/bin/site-check")
	s.hostler("resolver", "push", set, "--nodes", "all", "--version", "v2")
	var stopped string
	err := s.Wait(s.ctx, "the wave to stop", func() error {
		var list struct {
			Wants []api.ResolverWant `json:"wants"`
		}
		s.json(&list, "resolver", "list")
		if stopped = list.Wants[0].StopReason; stopped == "" {
			return errors.New("it goes on")
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, want := range []string{"profiles_refused_here", "/usr/local/bin/site-check", "site-bare"} {
		if !strings.Contains(stopped, want) {
			s.t.Errorf("the wave stopped because %q, which does not say %s", stopped, want)
		}
	}
	if r := s.resolver(); r.InForce != "v1" || r.Wanted != "v2" || r.Confirmed {
		s.t.Errorf("after the refusal: %+v", r)
	}
	s.explains("gpu.runtime.check", "no-gpu", "builtin:none")

	s.root("chmod", "0755", "/usr/local/bin/site-check")
	s.push("v2", set)
	if r := s.resolver(); r.Before != "v1" {
		s.t.Errorf("after v2: %+v", r)
	}
	s.hostler("resolver", "rollback", node, "--reason", "site-check is a bad idea")
	s.confirmed("v1")
	s.explains("gpu.scrub.overwrite", "no-gpu", "builtin:none")

	// A forbidden program is refused before the set goes anywhere.
	write(s.t, set, strings.Replace(bareProfiles, "/usr/local/bin/site-check", "/bin/bash", 1))
	if out, err := s.Hostler(s.ctx, "resolver", "push", set, "--nodes", "all", "--version", "v3"); err == nil || !strings.Contains(err.Error(), "bare.yaml:10") {
		s.t.Errorf("a shell was taken for a program: %v %s", err, out)
	}
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
