//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/maassim"
	"github.com/hostler/hostler/test/qemu"
)

// A bare-metal machine goes from its BMC to an active node: MAAS deploys it, the machine takes its
// data from MAAS, syncs its hardware with MAAS's own units, and enrols. The broker reveals no
// secret used on the way, and no secret that still opens anything stays on the machine.
func TestABareMachineIsOnboardedAndTellsNoSecret(t *testing.T) {
	s := newSiteOfItsOwn(t)
	rack := s.rack(func(box *maassim.Hardware) { box.BMC.Password = "planted-bmc-password-51e8" })
	secrets := map[string]string{
		"the site's API key": strings.Split(rack.APIKey(), ":")[2], "the BMC's password": rack.Box.BMC.Password, "the deploy user's password": "planted-deploy-password-77c1",
	}
	deploy := s.Path("deploy.pw")
	write(t, deploy, secrets["the deploy user's password"]+"\n")
	s.siteOf(rack, "--deploy-password-file", deploy)
	// A host that first reports before the broker looked is believed when it reports again. A host
	// that has not reported again after one and a half intervals is seeded anew, from a rack that
	// does not exist.
	s.hostler("site", "profile", "update", "dc1", "default", "--set", "hardware_sync_interval=4m")
	var run struct {
		ID     string `json:"id"`
		Status string `json:"status"`
		Stage  string `json:"current_stage"`
		MAASID string `json:"maas_system_id"`
		NodeID string `json:"node_id"`
	}
	s.json(&run, "onboarding", "start", "--site", "dc1", "--hostname", "c01", "--ipmi-ip", rack.Box.BMC.Address, "--sku", "xe9680.no-gpu")
	watched := make(chan error, 1)
	begun := time.Now()
	go func() {
		_, err := s.HostlerLive(s.ctx, "", t.Output(), "onboarding", "watch", run.ID)
		watched <- err
	}()
	seen := argvs{}
	for waiting := true; waiting; {
		select {
		case err := <-watched:
			if err != nil {
				t.Fatal(err)
			}
			waiting = false
		case <-time.After(100 * time.Millisecond):
			seen.look(secrets)
		}
	}
	t.Logf("from the BMC to an active node in %s", time.Since(begun).Round(time.Second))
	s.json(&run, "onboarding", "show", run.ID)
	if err := s.WaitNode(s.ctx, "c01", "active"); err != nil || run.Status != "completed" {
		t.Fatalf("the run is %s at %s: %v", run.Status, run.Stage, err)
	}
	if n := rack.Happened(rack.Box.Serial, "deploy"); n != 1 {
		t.Errorf("MAAS deployed it %d times", n)
	}
	machine, _ := rack.Machine(run.MAASID)
	if secrets["the enrol token"] = lab.EnrollToken(machine.UserData); secrets["the enrol token"] == "" {
		t.Fatalf("the machine was deployed with no enrol token: %q", machine.UserData)
	}
	deployed := slices.IndexFunc(rack.History(run.MAASID), func(c maassim.Change) bool { return c.What == "status" && c.To == "Deployed" })
	if deployed < 0 || !machine.LastSync.After(rack.History(run.MAASID)[deployed].At) {
		t.Errorf("last_sync is %v, and that is not after it was deployed", machine.LastSync)
	}
	for what := range seen {
		t.Errorf("%s is in the arguments of a process", what)
	}
	s.brokerTellsNone(secrets, []string{"onboarding", "show", run.ID, "--events"}, []string{"onboarding", "list"},
		[]string{"node", "show", "c01"}, []string{"node", "timeline", "c01"}, []string{"site", "show", "dc1"})

	var err error
	if s.guest, err = rack.Metal.Guest(); err != nil {
		t.Fatal(err)
	}
	if on := s.root("systemctl", "is-enabled", "maas_hardware_sync.timer"); on != "enabled" {
		t.Errorf("MAAS's timer is %s", on)
	}
	s.diskTells(secrets, machine.Token)
}

// rack is a simulated region with one machine in its rack. The machine is a guest.
func (s *site) rack(change func(*maassim.Hardware), drives ...*lab.Drive) *lab.Rack {
	s.t.Helper()
	box := maassim.Box(1)
	if change != nil {
		change(&box)
	}
	rack, err := lab.NewRack(shared.image, qemu.Config{Name: "c01", CPUs: 2}, box, drives...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if g, err := rack.Metal.Guest(); s.t.Failed() {
			s.t.Logf("bare metal: a system was installed: %v; its error: %v", g != nil, err) // for a system that did not boot this is the only trace
			if g != nil {
				s.t.Log(g.Examine(context.Background()))
			}
		}
		rack.Close()
	})
	return rack
}

// siteOf makes the rack's region a site that can onboard the machine. The flags set the site's
// credentials.
func (s *site) siteOf(rack *lab.Rack, flags ...string) {
	s.t.Helper()
	commands, err := rack.Site(s.Lab, "dc1")
	if err != nil {
		s.t.Fatal(err)
	}
	last := len(commands) - 1
	commands[last] = append(commands[last], flags...)
	for _, args := range append(commands, []string{"sku", "create", "xe9680.no-gpu"}) {
		s.hostler(args...)
	}
}

// argvs are the secrets found in the arguments of processes of this machine.
type argvs map[string]bool

func (a argvs) look(secrets map[string]string) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		argv, err := os.ReadFile(name)
		if err != nil {
			continue // the process has ended
		}
		for what, secret := range secrets {
			if bytes.Contains(argv, []byte(secret)) {
				a[what] = true
			}
		}
	}
}

// diskTells searches the machine's disk: its files as root, and every block not overwritten since.
// No file may hold a secret. MAAS may leave the machine's own MAAS token there.
func (s *site) diskTells(secrets map[string]string, machineToken string) {
	s.t.Helper()
	s.root("sync")
	written, err := os.ReadFile(s.guest.Disk())
	if err != nil {
		s.t.Fatal(err)
	}
	find := func(secret string) []string {
		// Exit 1 means that nothing was found, 2 that a file vanished meanwhile.
		r, err := s.guest.Run(s.ctx, "grep", "-rlF", "-e", secret, "/etc", "/var", "/root", "/home", "/usr/local", "/opt", "/run", "/tmp", "/srv", "/boot")
		if err != nil && r.Exit == 0 {
			s.t.Fatal(err)
		}
		return strings.Fields(r.Stdout)
	}
	for what, secret := range secrets {
		files := find(secret)
		if len(files) > 0 {
			s.t.Errorf("%s is left on the machine, in %q", what, files)
		}
		s.t.Logf("%s: %d times among the blocks of the disk", what, bytes.Count(written, []byte(secret)))
	}
	if files := find(machineToken); !slices.Contains(files, "/etc/maas/maas-machine-creds.yml") {
		s.t.Errorf("the machine's own token at MAAS is in %q", files)
	} else {
		s.t.Logf("the machine's own token at MAAS is in %q", files)
	}
}
