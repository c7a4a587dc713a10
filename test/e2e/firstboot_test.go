//go:build e2e

package e2e

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/test/lab"
)

func TestAClockThatBreaksTLSIsNamedWithItsOffset(t *testing.T) {
	s := newSite(t)
	s.restore(booted)
	var made struct {
		Token    string `json:"token"`
		URL      string `json:"broker_url"`
		CASHA256 string `json:"ca_sha256"`
	}
	s.json(&made, "node", "create", "--hostname", node, "--bootstrap", "command")
	deb, err := os.ReadFile(agentPackage(t))
	if err != nil {
		t.Fatal(err)
	}
	s.put("/root/agent.deb", deb, 0o600)
	s.root("dpkg", "-i", "/root/agent.deb")
	enroll := func() (string, error) {
		r, err := s.guest.RunWith(s.ctx, strings.NewReader(made.Token+"\n"), "hostler-agent", "enroll",
			"--broker", made.URL, "--ca-sha256", made.CASHA256, "--token-file", "-", "--timeout", "5s")
		return r.Stdout + r.Stderr, err
	}
	for off, want := range map[time.Duration]string{
		365 * 24 * time.Hour:  "8760h0m0s ahead",
		-365 * 24 * time.Hour: "8760h0m0s behind",
	} {
		if err := s.guest.SetClock(s.ctx, time.Now().Add(off)); err != nil {
			t.Fatal(err)
		}
		said, err := enroll()
		if err == nil || !strings.Contains(said, "clock_wrong") || !strings.Contains(said, want) {
			t.Errorf("with the clock %s off: %v: %s, want %s", off, err, said, want)
		}
	}
	if err := s.guest.SetClock(s.ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	if said, err := enroll(); err != nil {
		t.Errorf("with the clock right: %v: %s", err, said)
	}
}

// The pasted command enrols too, and its token is in no process's arguments.
func TestThePastedLineEnrols(t *testing.T) {
	s := newSite(t)
	s.restore(booted)
	line := strings.TrimSpace(s.hostler("node", "create", "--hostname", node, "--bootstrap", "command"))
	s.root("bash", "-c", line)
	s.waitNode("active")
	var exit *lab.ExitError
	if _, err := s.Hostler(s.ctx, "node", "create", "--hostname", node); !errors.As(err, &exit) || exit.Code == 0 {
		t.Errorf("a second node of that name: %v", err)
	}
}
