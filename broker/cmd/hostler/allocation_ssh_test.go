package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
)

// The ssh program gets the tenant's user and the node's address, before what the caller wrote: nothing
// that turns off the check of host keys, and no word of the broker's that ssh would take for an option.
func TestSSHGetsTheNodeOfTheAllocation(t *testing.T) {
	const tenant, platform = `{"name":"ada","organisation_id":"org-1","project_id":"prj-1"}`, `{"name":"alice","role":"operator"}`
	gpu := func(n int, address string) api.AllocationLogin {
		return api.AllocationLogin{Hostname: fmt.Sprint("gpu-", n), Address: address, Username: "tenant"}
	}
	two := []api.AllocationLogin{gpu(1, "10.0.0.7"), gpu(2, "")}
	for name, row := range map[string]struct {
		me       string
		logins   []api.AllocationLogin
		args     []string
		away     bool
		ssh      string // empty: not run
		terminal string // the request that opens one; empty: none is opened
		says     string
		status   int
	}{
		"one node":                           {me: tenant, logins: two[:1], ssh: "-l tenant 10.0.0.7"},
		"one of two":                         {me: tenant, logins: two, args: []string{"--node", "gpu-1"}, ssh: "-l tenant 10.0.0.7"},
		"without an address":                 {me: tenant, logins: two, args: []string{"--node", "gpu-2"}, ssh: "-l tenant gpu-2"},
		"an address of IPv6":                 {me: tenant, logins: []api.AllocationLogin{gpu(1, "fd00::7")}, ssh: "-l tenant fd00::7"},
		"arguments":                          {me: tenant, logins: two[:1], args: []string{"--", "-L", "1:h:2", "nvidia-smi"}, ssh: "-l tenant 10.0.0.7 -L 1:h:2 nvidia-smi"},
		"a tenant's node behind a jump host": {me: tenant, logins: two[:1], away: true, args: []string{"--via", "ssh", "--", "-v"}, ssh: "-l tenant 10.0.0.7 -v"},
		"out of a tenant's reach":            {me: tenant, logins: two[:1], away: true, terminal: "POST /projects/prj-1/allocations/alc-1/terminals", says: "gpu-1 is not reachable at 10.0.0.7 port 22 from here: opening a terminal", status: exitNotFound},
		"out of reach, quietly":              {me: tenant, logins: two[:1], away: true, args: []string{"-q"}, terminal: "POST /projects/prj-1/allocations/alc-1/terminals", says: "gpu-1 is not reachable at 10.0.0.7 port 22 from here: opening a terminal", status: exitNotFound},
		"through the broker at once":         {me: tenant, logins: two, args: []string{"--node", "gpu-2", "--via", "broker"}, terminal: "POST /projects/prj-1/allocations/alc-1/terminals", says: "opening a terminal on gpu-2 through the broker, as --via says", status: exitNotFound},
		"the platform, through the broker":   {me: platform, logins: two[:1], args: []string{"--via", "broker"}, terminal: "POST /terminals", says: "opening a terminal on gpu-1", status: exitNotFound},
		"the broker takes no arguments":      {me: tenant, logins: two[:1], args: []string{"--via", "broker", "--", "-v"}, says: "error: bad_usage: ", status: exitUsage},
		"no such way":                        {me: tenant, logins: two[:1], args: []string{"--via", "pigeon"}, says: "error: bad_usage: --via takes ssh or broker", status: exitUsage},
		"out of a tenant's reach, arguments": {me: tenant, logins: two[:1], away: true, args: []string{"--", "-v"}, says: "error: node_unreachable: ", status: exitFailed},
		"as the platform":                    {me: platform, logins: two[:1], ssh: "-l tenant 10.0.0.7"},
		"several nodes":                      {me: tenant, logins: two, says: "error: bad_usage: allocation alc-1 has 2 nodes (name one with --node: gpu-1, gpu-2)", status: exitUsage},
		"no such node":                       {me: tenant, logins: two, args: []string{"--node", "gpu-3"}, says: "error: node_not_found: ", status: exitNotFound},
		"an ended allocation":                {me: tenant, says: "error: allocation_not_active: ", status: exitRefused},
		"an option for an address":           {me: tenant, logins: []api.AllocationLogin{gpu(1, "-oProxyCommand=id")}, says: "error: address_invalid: ", status: exitFailed},
		"a user in an address":               {me: tenant, logins: []api.AllocationLogin{gpu(1, "root@10.0.0.7")}, says: "error: address_invalid: ", status: exitFailed},
		"out of reach of the platform":       {me: platform, logins: two[:1], away: true, terminal: "POST /terminals", says: "gpu-1 is not reachable at 10.0.0.7 port 22 from here: opening a terminal", status: exitNotFound},
		"out of reach, and arguments":        {me: platform, logins: two[:1], away: true, args: []string{"--", "-v"}, says: "error: node_unreachable: ", status: exitFailed},
		"words without a dash":               {me: tenant, logins: two[:1], args: []string{"nvidia-smi"}, says: "error: bad_usage: ", status: exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBroker(t)
			home := t.TempDir()
			if err := b.writeClient(home); err != nil {
				t.Fatal(err)
			}
			status := "active"
			if len(row.logins) == 0 {
				status = "releasing"
			}
			v := api.Allocation{ID: "alc-1", ProjectID: "prj-1", Status: status, Site: "dc1", Logins: row.logins}
			b.answer("GET /whoami", http.StatusOK, row.me)
			b.answer("GET /projects/prj-1/allocations/alc-1", http.StatusOK, encoded(v))
			b.answer("GET /allocations/alc-1", http.StatusOK, encoded(api.PlatformAllocation{Allocation: v}))
			var out, errs bytes.Buffer
			var ran []string
			env := nowhere(&out, &errs)
			env.reaches = func(_ context.Context, address string) bool { return !row.away && strings.HasSuffix(address, ":22") }
			env.become = func(program string, args ...string) error {
				ran = append([]string{program}, args...)
				return nil
			}
			got := run(t.Context(), append([]string{"--config", home + "/client.yaml", "allocation", "ssh", "alc-1"}, row.args...), env)
			want := ""
			if row.ssh != "" {
				want = "ssh " + row.ssh
			}
			if strings.Join(ran, " ") != want || got != row.status || !strings.Contains(errs.String(), row.says) {
				t.Errorf("status %d, ran %q, wrote %s; want status %d, %q, %q", got, ran, errs.String(), row.status, want, row.says)
			}
			opened := ""
			for _, r := range b.requests() {
				if strings.HasPrefix(r.line, "POST ") {
					opened = r.line
					if r.line == "POST /terminals" && (!strings.Contains(r.body, `"node":"dc1/gpu-1"`) || !strings.Contains(r.body, `"allocation_id":"alc-1"`)) ||
						r.line != "POST /terminals" && !strings.Contains(r.body, `"hostname":"gpu-`) {
						t.Errorf("asked for %s", r.body)
					}
				}
			}
			if opened != row.terminal {
				t.Errorf("a terminal was asked for: %q, want %q", opened, row.terminal)
			}
		})
	}
}

// ssh itself takes the options: the proven key, under a name of its own, in a file whose path has what
// ssh would split or expand.
func TestSSHAcceptsTheProvenHostKeyAlone(t *testing.T) {
	const line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIA2gT4F2m5C1yqXZ7u0cSxkq1sBzqH4q5l0S9m3v0aA"
	home := filepath.Join(t.TempDir(), `a b "c" %h`)
	a := &app{processEnv: processEnv{getenv: func(name string) string {
		return map[string]string{"XDG_CONFIG_HOME": home}[name]
	}}}
	options, err := a.hostKeyOptions("alc-1", api.AllocationLogin{Hostname: "gpu-1", HostKey: line + " a comment"})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, "hostler", "known_hosts", "alc-1.gpu-1")
	if kept, err := os.ReadFile(file); err != nil || string(kept) != "alc-1.gpu-1 "+line+"\n" {
		t.Errorf("kept %q: %v", kept, err)
	}
	said, err := exec.CommandContext(t.Context(), "ssh", append([]string{"-F", "none", "-G"}, append(options, "10.0.0.7")...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"hostkeyalias alc-1.gpu-1", "stricthostkeychecking true", "userknownhostsfile " + file} {
		if !strings.Contains(string(said), "\n"+want+"\n") {
			t.Errorf("ssh does not say %q: %s", want, said)
		}
	}
	for name, l := range map[string]api.AllocationLogin{
		"a second line":     {Hostname: "gpu-1", HostKey: line + "\n* " + line},
		"no key":            {Hostname: "gpu-1", HostKey: "rubbish"},
		"a path for a name": {Hostname: "../gpu-1", HostKey: line},
	} {
		if options, err := a.hostKeyOptions("alc-1", l); err == nil || broker.AsError(err).Code != "host_key_invalid" {
			t.Errorf("%s: %q, %v", name, options, err)
		}
	}
	if options, err := a.hostKeyOptions("../alc-1", api.AllocationLogin{Hostname: "gpu-1", HostKey: line}); err == nil {
		t.Errorf("a path for an id: %q", options)
	}
	if options, err := a.hostKeyOptions("alc-1", api.AllocationLogin{Hostname: "gpu-1"}); err != nil || options != nil {
		t.Errorf("without a key: %q, %v", options, err)
	}
}

// A program that this process becomes does not get the token of the broker.
func TestAProgramGetsNoToken(t *testing.T) {
	if got := withoutToken([]string{"A=1", "HOSTLER_TOKEN=hso_secret", "HOSTLER_TOKEN_FILE=f"}); !slices.Equal(got, []string{"A=1", "HOSTLER_TOKEN_FILE=f"}) {
		t.Errorf("%q", got)
	}
	if err := become("no-such-program-anywhere"); err == nil || !strings.Contains(err.Error(), "cannot run no-such-program-anywhere") {
		t.Error(err)
	}
}
