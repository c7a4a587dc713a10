//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/maassim"
	"github.com/hostler/hostler/test/qemu"
)

// tenant is a project with one member, the member's token and the member's SSH key.
type tenant struct {
	*site
	name, project, token, keyID string
	key                         ssh.Signer
}

// allocation holds the fields of an allocation's JSON that the test reads.
type allocation struct {
	ID           string   `json:"id"`
	Status       string   `json:"status"`
	Certificates []string `json:"certificate_ids"`
	Logins       []struct {
		Hostname string `json:"hostname"`
		Username string `json:"username"`
	} `json:"logins"`
}

func (s *site) tenant(name string) *tenant {
	s.t.Helper()
	x := &tenant{site: s, name: name, project: name + "/lab"}
	s.hostler("org", "create", name)
	s.hostler("project", "create", "lab", "--org", name)
	s.hostler("quota", "set", x.project, gpuSKU, "--nodes", "1", "--gpus", "8")
	x.token = strings.TrimSpace(s.hostler("token", "create", "--name", "of-"+name, "--role", "project_member", "--project", x.project, "--reason", "a member"))
	var members struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
	}
	s.json(&members, "member", "list", "--project", x.project)
	key, err := qemu.NewOperator()
	if err != nil || len(members.Items) != 1 {
		s.t.Fatalf("%+v: %v", members, err)
	}
	x.key = key
	file := s.Path(name + ".pub")
	write(s.t, file, string(ssh.MarshalAuthorizedKey(key.PublicKey())))
	var added struct {
		ID string `json:"id"`
	}
	x.asks(&added, "key", "add", members.Items[0].ID, file)
	x.keyID = added.ID
	return x
}

// asks runs a command with the tenant's token.
func (x *tenant) asks(out any, args ...string) {
	x.t.Helper()
	text, err := x.HostlerAs(x.ctx, x.token, nil, append(args, "-o", "json")...)
	if err == nil {
		err = json.Unmarshal([]byte(text), out)
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

// ssh logs in to the guest with the tenant's key and runs a command, which ends well if ok.
func (x *tenant) ssh(line string) (stdout string, ok bool) {
	x.t.Helper()
	client, err := x.guest.LogIn(x.ctx, broker.AllocationAccount, x.key)
	if err != nil {
		if !strings.Contains(err.Error(), "unable to authenticate") {
			x.t.Fatalf("ssh as %s: %v", x.name, err)
		}
		return "", false
	}
	defer func() { _ = client.Close() }()
	session, err := client.NewSession()
	if err != nil {
		x.t.Fatal(err)
	}
	var out bytes.Buffer
	session.Stdout = &out
	err = session.Run(line)
	if _, ended := errors.AsType[*ssh.ExitError](err); err != nil && !ended {
		x.t.Fatalf("ssh as %s: %s: %v", x.name, line, err)
	}
	return strings.TrimSpace(out.String()), err == nil
}

// moveIn has the tenant ask for a node, and log in. The other tenant's key lets nobody in.
func (x *tenant) moveIn(other *tenant) (a allocation) {
	x.t.Helper()
	x.asks(&a, "allocation", "create", "--sku", gpuSKU, "--nodes", "1", "--key", x.keyID, "--wait")
	if a.Status != "active" || len(a.Logins) != 1 || a.Logins[0].Hostname != node || a.Logins[0].Username != broker.AllocationAccount {
		x.t.Fatalf("the allocation of %s is %+v", x.name, a)
	}
	if who, in := x.ssh("id -un"); !in || who != broker.AllocationAccount {
		x.t.Fatalf("%s does not get in: %q", x.name, who)
	}
	if _, in := other.ssh("true"); in {
		x.t.Errorf("the key of %s lets in on the node of %s", other.name, x.name)
	}
	return a
}

// moveOut has the tenant release the allocation, and returns its certificate. The tenant's receipt of it is
// verified offline.
func (x *tenant) moveOut(a allocation, trust string) (certificate string) {
	x.t.Helper()
	x.asks(&a, "allocation", "release", a.ID, "--yes", "--wait", "--timeout", "15m")
	if a.Status != "released" || len(a.Certificates) != 1 {
		x.t.Fatalf("the allocation of %s is %+v", x.name, a)
	}
	file := x.Path(a.Certificates[0] + ".json")
	text, err := x.HostlerAs(x.ctx, x.token, nil, "allocation", "certificate", a.ID, "--out", file)
	if err == nil {
		text, err = x.HostlerOffline(x.ctx, "certificate", "verify", file, "--trust", trust, "-o", "json")
	}
	var report struct {
		Receipt struct {
			AllocationID string `json:"allocation_id"`
			Verdict      struct {
				MeetsPolicy bool `json:"meets_policy"`
			} `json:"verdict"`
		} `json:"receipt"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &report)
	}
	if err != nil || !report.Receipt.Verdict.MeetsPolicy || report.Receipt.AllocationID != a.ID {
		x.t.Errorf("the receipt of %s: %s: %v", x.name, text, err)
	}
	if _, in := x.ssh("true"); in {
		x.t.Errorf("%s still gets in", x.name)
	}
	return a.Certificates[0]
}

const gpuSKU = "h100.8gpu"

// left is in all that the first tenant leaves, on disk and in the memory of the GPUs.
const left = "secret-of-the-first"

// A tenant asks, logs in with a key, leaves residue on disk and GPUs and ends; the turnover follows by itself. The next
// tenant gets the same node and finds nothing, and each has a receipt of its own.
func TestANodeGoesFromTenantToTenant(t *testing.T) {
	s := newSite(t)
	s.restore(installed)
	s.allocationSite()
	g := s.install("nvidia", 8)
	s.hostler("resolver", "push", shipped, "--nodes", "all", "--version", "v1")
	s.enrol("--site", "dc1", "--sku", gpuSKU)
	first, second := s.tenant("acme"), s.tenant("beta")
	trust := s.Path("trust.json")
	write(t, trust, s.hostler("trust", "show", "-o", "json"))

	a := first.moveIn(second)
	if said, err := second.HostlerAs(s.ctx, second.token, nil, "allocation", "create", "--sku", gpuSKU, "--nodes", "1", "--key", second.keyID); err == nil || !strings.Contains(err.Error(), "sku_unavailable") {
		t.Errorf("the node is taken, and the second tenant is told: %s %v", said, err)
	}
	if _, err := second.HostlerAs(s.ctx, second.token, nil, "allocation", "show", a.ID); err == nil || !strings.Contains(err.Error(), "allocation_not_found") {
		t.Errorf("the second tenant sees the first one's allocation: %v", err)
	}
	for _, line := range []string{
		"echo " + left + " | tee /tmp/a /var/tmp/b /dev/shm/c ~/d", "setsid nohup sleep 86400 > /dev/null 2>&1 < /dev/null &", "ipcmk --shmem 65536",
		"echo '* * * * * true # " + left + "' | crontab -", "fakegpu-tenant 8388608 " + left,
	} {
		if said, in := first.ssh(line); !in {
			t.Fatalf("%s: %s", line, said)
		}
	}
	if n := g.tokens(left); slices.Min(n) == 0 {
		t.Fatalf("the memory of the GPUs holds %d tokens, so the test proves nothing of it", n)
	}
	one := first.moveOut(a, trust)
	if n := g.tokens(left); slices.Max(n) != 0 {
		t.Errorf("the memory of the GPUs still holds %d tokens", n)
	}

	b := second.moveIn(first)
	if said, _ := second.ssh("grep -rls " + left + " /tmp /var/tmp /dev/shm /home /var/spool; pgrep -x sleep; ipcs -m | grep tenant"); said != "" {
		t.Errorf("the second tenant finds %s", said)
	}
	if r, err := s.guest.Run(s.ctx, "grep", "-rls", left, "/tmp", "/var/tmp", "/dev/shm", "/home", "/var/spool"); r.Exit != 1 { // 1: nothing was found
		t.Errorf("left on the node: %s %v", r.Stdout, err)
	}
	if two := second.moveOut(b, trust); two == one {
		t.Errorf("both have certificate %s", one)
	}
}

// allocationSite makes the site dc1, whose MAAS knows no machine, and a SKU of eight GPUs.
func (s *site) allocationSite() {
	s.t.Helper()
	region, err := lab.ServeRegion(&maassim.Region{Version: "3.6", Timing: maassim.Timing{NodeTimeout: time.Hour, ReleaseTimeout: time.Hour}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = region.Close() })
	key, password := s.Path("maas.key"), s.Path("bmc.pw")
	write(s.t, key, region.APIKey()+"\n")
	write(s.t, password, "pw\n")
	for _, args := range [][]string{
		{
			"site", "create", "dc1", "--region-code", "eu-1", "--api-base-url", region.At("127.0.0.1") + "/MAAS", "--pxe-iface", "ens19",
			"--node-pxe-iface", "eno8303",
		},
		{"site", "credentials", "dc1", "--maas-token-file", key, "--power-user", "admin", "--power-password-file", password},
		{"site", "profile", "update", "dc1", "default", "--set", "require_hw_sync=false", "--set", "accept_system_disk=true"},
		{"sku", "create", gpuSKU, "--gpu-vendor", "nvidia", "--gpu-model", "H100", "--gpu-count", "8", "--gpu-memory", "16MiB"},
	} {
		s.hostler(args...)
	}
}
