//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/maassim"
)

// reimageTime is the time limit of a case that boots a machine twice.
const reimageTime = 2 * caseTime

// turnover holds the fields of a run that a case reads.
type turnover struct {
	ID          string   `json:"id"`
	Status      string   `json:"status"`
	Stage       string   `json:"current_stage"`
	Class       string   `json:"failure_class"`
	Code        string   `json:"error_code"`
	Message     string   `json:"error_message"`
	Certificate string   `json:"certificate_id"`
	MeetsPolicy bool     `json:"meets_policy"`
	Warnings    []string `json:"warnings"`
	Stages      []struct {
		Stage   string `json:"stage"`
		Status  string `json:"status"`
		Message string `json:"message"`
	} `json:"stages"`
}

// how returns the end of a stage of the run.
func (r turnover) how(stage string) string {
	for _, s := range r.Stages {
		if s.Stage == stage {
			return s.Status
		}
	}
	return ""
}

// member holds the fields of a node that a case reads.
type member struct {
	ID           string `json:"id"`
	Status       string `json:"status"`
	TurnoverOwed bool   `json:"turnover_owed"`
	Epoch        int64  `json:"epoch"`
	Baseline     string `json:"baseline_digest"`
}

// turned waits until a turnover has ended or needs a person.
func (s *site) turned(id string) (r turnover) {
	s.t.Helper()
	if _, err := s.HostlerLive(s.ctx, "", s.t.Output(), "decommission", "watch", id); err != nil {
		if _, is := errors.AsType[*lab.ExitError](err); !is {
			s.t.Fatal(err)
		}
	}
	s.json(&r, "decommission", "show", id)
	return r
}

func (s *site) member(name string) (n member) {
	s.t.Helper()
	s.json(&n, "node", "show", name)
	return n
}

// drifts returns the rules of the open drifts.
func (s *site) drifts() (rules []string) {
	s.t.Helper()
	var open struct {
		Items []struct {
			Rule string `json:"rule"`
		} `json:"items"`
	}
	s.json(&open, "drift", "list")
	for _, d := range open.Items {
		rules = append(rules, d.Rule)
	}
	return rules
}

// refusedAs connects with a copied identity; the broker must refuse it with the code.
func (s *site) refusedAs(i *lab.Identity, code string) {
	s.t.Helper()
	if got, err := i.Knock(s.ctx, s.Lab); err != nil || got != code {
		s.t.Errorf("the copied identity was refused by %q, want %s: %v", got, code, err)
	}
}

// A tenant with root removes the agent and hides a copy that starts at the next boot. The node is
// reimaged without the agent, under the same id. Meanwhile the old disk boots: the broker refuses
// the old key, and its use stops the run until a person decides. Then the node leaves the fleet for
// good.
func TestANodeIsReimagedAndRemoved(t *testing.T) {
	s := newSiteOfItsOwn(t)
	ctx, cancel := context.WithTimeout(t.Context(), reimageTime)
	defer cancel()
	s.ctx = ctx
	drive, err := lab.NewDrive(s.Path("nvme.raw"), "NVME1", 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	rack := s.rack(nil, drive)
	s.siteOf(rack)
	s.hostler("site", "profile", "update", "dc1", "default", "--set", "hardware_sync_interval=4m", "--set", "accept_maas_erase=true", "--set", "drain_timeout_seconds=60")
	s.hostler("onboarding", "start", "--site", "dc1", "--hostname", node, "--ipmi-ip", rack.Box.BMC.Address, "--sku", "xe9680.no-gpu", "--wait")
	before := s.member(node)
	machine, has := rack.Of(node)
	if s.guest, err = rack.Metal.Guest(); err != nil || !has || before.Status != "active" {
		t.Fatalf("%+v, %v", before, err)
	}
	firstToken := lab.EnrollToken(machine.UserData)
	boot := s.root("cat", "/proc/sys/kernel/random/boot_id")

	s.must("allocation.provision_user", map[string]any{
		"allocation_id": "a-1", "username": "mallory", "tenant": "acme", "sudo": true, "ssh_keys": []string{strings.Join(strings.Fields(s.root("cat", "/etc/ssh/ssh_host_ed25519_key.pub"))[:2], " ")},
	})
	stolen, err := lab.TakeIdentity(s.ctx, s.guest, s.Path("stolen"))
	if err != nil {
		t.Fatal(err)
	}
	s.root("sh", "-c", "yes '"+strings.TrimSpace(tenantsLine)+"' | dd of=/dev/nvme0n1 bs=1M iflag=fullblock oflag=direct status=none || true")
	if n, err := drive.Count(tenantsLine[:24]); err != nil || n == 0 {
		t.Fatalf("the drive holds %d lines of the tenant's: %v", n, err)
	}
	s.root("sh", "-c", "echo '"+strings.TrimSpace(tenantsLine)+"' > /var/lib/kept && sync")
	s.hideAgent()
	s.root("sh", "-c", "systemctl disable --now hostler-agent; dpkg --purge hostler-agent; rm -rf /var/lib/hostler-agent /etc/hostler-agent; sync")
	rack.Metal.KeepDisk()

	var r turnover
	s.part("ATenantIsNotTurnedOut", func(s *site) {
		_, err := s.Hostler(s.ctx, "decommission", "start", node, "--mode", "reimage", "--reason", "because", "--yes")
		if exit, is := errors.AsType[*lab.ExitError](err); !is || exit.Code != 3 || !strings.Contains(exit.Stderr, "allocation_live") || !strings.Contains(exit.Stderr, "acme") {
			s.t.Errorf("a reimage under a tenant: %v", err)
		}
	})
	s.part("TheOldDiskStopsTheRun", func(s *site) {
		s.json(&r, "decommission", "start", node, "--mode", "reimage", "--erase", "secure", "--force-release", "--reason", "a-1 ended", "--yes")
		err := s.Wait(s.ctx, "the deployment", func() error {
			s.json(&r, "decommission", "show", r.ID)
			if s.t.Failed() || !slices.Contains([]string{"deploy_via_maas", "wait_for_deployed", "wait_for_hardware_sync_healthy"}, r.Stage) {
				return fmt.Errorf("the reimage is %s at %s", r.Status, r.Stage)
			}
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
		if n, err := drive.Count(tenantsLine[:24]); err != nil || n != 0 {
			s.t.Errorf("MAAS has erased the machine, and its drive holds %d lines of the tenant's: %v", n, err)
		}
		old, err := rack.Metal.BootKept(s.ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		if r = s.turned(r.ID); r.Status != "failed_manual_intervention" || r.Class != "state_ambiguity" || r.Code != "previous_os_alive" {
			s.t.Errorf("the run is %s at %s: %s: %s: %s", r.Status, r.Stage, r.Class, r.Code, r.Message)
		}
		if got := s.drifts(); !slices.Equal(got, []string{"previous_os_alive"}) {
			s.t.Errorf("the drifts are %v", got)
		}
		if n := s.member(node); n.Status == "active" || !n.TurnoverOwed || n.ID != before.ID {
			s.t.Errorf("the node is %+v", n)
		}
		if said, err := old.Run(s.ctx, "cat", "/var/lib/kept"); err != nil || !strings.Contains(said.Stdout, strings.TrimSpace(tenantsLine)) {
			s.t.Errorf("it was not the tenant's disk that booted: %q, %v", said.Stdout, err)
		}
		if err := old.Unplug(s.ctx); err != nil {
			s.t.Fatal(err)
		}
		s.hostler("drift", "resolve", node, "--reason", "the disk is out")
	})
	s.part("TheSameNodeGetsAFreshSystem", func(s *site) {
		s.hostler("decommission", "resume", r.ID, "--reason", "looked at")
		if r = s.turned(r.ID); r.Status != "completed" || !r.MeetsPolicy {
			s.t.Fatalf("the run is %s at %s: %s: %s", r.Status, r.Stage, r.Class, r.Message)
		}
		for _, stage := range []string{"drain_node", "cleanup_storage"} {
			if how := r.how(stage); how != "skipped" || !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, stage+" was not made") }) {
				s.t.Errorf("%s, with no agent to do it, is %s; warnings %q", stage, how, r.Warnings)
			}
		}
		after := s.member(node)
		if after.ID != before.ID || after.Epoch != before.Epoch+1 || after.Status != "active" || after.TurnoverOwed || after.Baseline == before.Baseline {
			s.t.Errorf("the node was %+v and is %+v", before, after)
		}
		if n := rack.Happened(rack.Box.Serial, "deploy"); n != 2 {
			s.t.Errorf("MAAS deployed it %d times", n)
		}
		if m, _ := rack.Of(node); lab.EnrollToken(m.UserData) == firstToken || m.SystemID != machine.SystemID {
			s.t.Errorf("machine %s has the token of before, or is another", m.SystemID)
		}
		s.certified(r.Certificate, after)
	})
	if t.Failed() {
		t.FailNow()
	}
	if s.guest, err = rack.Metal.Guest(); err != nil {
		t.Fatal(err)
	}
	if again := s.root("cat", "/proc/sys/kernel/random/boot_id"); again == boot {
		t.Error("the guest has not booted anew")
	}
	if r, _ := s.guest.Run(s.ctx, "ls", "-d", "/var/lib/kept", "/home/mallory"); r.Stdout != "" {
		t.Errorf("on the fresh system is %s", r.Stdout)
	}

	s.part("ItLeavesForGood", func(s *site) {
		last, err := lab.TakeIdentity(s.ctx, s.guest, s.Path("last"))
		if err != nil {
			s.t.Fatal(err)
		}
		s.json(&r, "decommission", "start", node, "--mode", "full_decommission", "--reason", "sold", "--yes")
		if r = s.turned(r.ID); r.Status != "completed" || r.how("drain_node") != "succeeded" || r.how("remove_gpuaas_node_record") != "skipped" {
			s.t.Fatalf("the run is %s at %s: %s: %s\n%+v", r.Status, r.Stage, r.Class, r.Message, r.Stages)
		}
		if n := s.member(before.ID); n.Status != "deleted" {
			s.t.Errorf("the node is %+v", n)
		}
		if m, has := rack.Of(node); !has || m.Status != maassim.Ready || m.On || m.Owner != "" {
			s.t.Errorf("the machine is %v, on %v, of %q", m.Status, m.On, m.Owner)
		}
		s.refusedAs(stolen, "certificate_denied")
		s.refusedAs(last, "certificate_denied")
		if _, err := s.Hostler(s.ctx, "node", "activate", before.ID, "--override", "--reason", "because"); err == nil || !strings.Contains(err.Error(), "deleted") {
			s.t.Errorf("a deleted node was made active: %v", err)
		}
	})
	s.hostler("audit", "verify")
}

// hideAgent copies the agent and its identity to a hidden folder, from which the copy starts at the
// next boot. That boot asks the region for nothing.
func (s *site) hideAgent() {
	s.t.Helper()
	const unit = `[Unit]
After=network.target
[Service]
ExecStart=/opt/kept/agent run --config /opt/kept/config.yaml
[Install]
WantedBy=multi-user.target
`
	const config = "state_dir: /opt/kept/state\nstatus_file: /opt/kept/status.json\n"
	s.root("mkdir", "-m", "700", "/opt/kept")
	s.root("cp", "-aL", "/usr/bin/hostler-agent", "/opt/kept/agent")
	s.root("cp", "-a", "/var/lib/hostler-agent", "/opt/kept/state")
	s.root("sh", "-c", "printf %s '"+config+"' > /opt/kept/config.yaml; printf %s '"+unit+"' > /etc/systemd/system/kept.service")
	s.root("systemctl", "enable", "kept.service")
	s.root("touch", "/etc/cloud/cloud-init.disabled")
}

// certified verifies a certificate with only a file of keys, and compares it with the machine's
// true state.
func (s *site) certified(id string, n member) {
	s.t.Helper()
	file, trust := s.Path("certificate.json"), s.Path("trust.json")
	s.hostler("certificate", "get", id, "--out", file)
	write(s.t, trust, s.hostler("trust", "show", "-o", "json"))
	text, err := s.HostlerOffline(s.ctx, "certificate", "verify", file, "--trust", trust, "-o", "json")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, want := range []string{`"environment":"fresh_os"`, `"had_root":true`, fmt.Sprintf(`"node_id":"%s","node_epoch":%d`, n.ID, n.Epoch), `"method":"maas_secure_erase"`} {
		if !strings.Contains(compact(text), want) {
			s.t.Errorf("the certificate does not say %s:\n%s", want, text)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	raw[len(raw)/2] ^= 1
	write(s.t, file, string(raw))
	if said, err := s.HostlerOffline(s.ctx, "certificate", "verify", file, "--trust", trust); err == nil || said != "" {
		s.t.Errorf("a certificate of which one bit was changed is believed: %s", said)
	}
}

// compact removes all white space from JSON; no text in it contains any that matters.
func compact(text string) string { return strings.Join(strings.Fields(text), "") }
