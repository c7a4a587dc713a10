package onboarding_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/sshseed"
	"github.com/hostler/hostler/test/maassim"
)

// unsynced is a world with a machine that does not report its hardware after its deployment, and
// whose agent stays away.
func unsynced(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "3.6")
	w.region.PlugIn(w.box(1))
	w.region.Inject(fault(maassim.SyncStops, "", -1))
	w.silent = true
	return w
}

// failsWith settles, and checks the run's failure.
func (w *world) failsWith(id string, class broker.FailureClass, code string) chain.Record {
	w.t.Helper()
	w.settle(nil)
	r := w.run(id)
	if f := r.Failure; f == nil || f.Class != chain.Class(class) || f.Code != code || r.NextAction == "" {
		w.t.Fatalf("%s at %s: %+v, next %q; want %s, %s", r.Status, r.Stage, f, r.NextAction, class, code)
	}
	return r
}

func TestAMachineWithoutAnAgentIsSeededOverSSH(t *testing.T) {
	w := unsynced(t)
	id := w.start(1)
	var deployed, called time.Time
	w.doors.check = func(string, string) {
		if called.IsZero() {
			called, deployed = w.clock.Now(), stateOf(t, w.run(id)).DeployedAt
		}
	}
	r := w.failsWith(id, broker.AgentEnrollmentFailure, "failed_enrollment") // the sync succeeded
	at := "10.10.0.2"
	if want := []string{"key " + at, "seed " + at}; !slices.Equal(w.doors.calls, want) {
		t.Errorf("calls %q, want %q", w.doors.calls, want)
	}
	if called.Sub(deployed) < 15*time.Minute*3/2 {
		t.Errorf("it is called %v after the deployment", called.Sub(deployed))
	}
	s := stateOf(t, r)
	if !strings.HasPrefix(s.SSH.HostKey, "ssh-ed25519 ") || s.SSH.SeededAt.IsZero() || s.SSH.Trouble != "" {
		t.Errorf("%+v", s.SSH)
	}
	if said := strings.Join(s.Warnings, "\n"); !strings.Contains(said, "seeded over SSH at "+at) || !strings.Contains(said, sshseed.Fingerprint(s.SSH.HostKey)) {
		t.Errorf("the run tells %q", said)
	}
}

// A recorded key is saved before anything is sent: after a crash in between, the next broker uses
// the same key.
func TestTheHostKeyIsKeptBeforeAnythingIsSent(t *testing.T) {
	w := unsynced(t)
	id := w.start(1)
	noted := ""
	w.doors.check = func(_, call string) {
		if call == "seed" {
			noted = stateOf(t, w.run(id)).SSH.HostKey
		}
	}
	w.settle(nil)
	if noted == "" || noted != stateOf(t, w.run(id)).SSH.HostKey {
		t.Errorf("kept %q when it was used", noted)
	}
}

func TestAHostKeyThatChangesStopsForAPerson(t *testing.T) {
	w := unsynced(t)
	id := w.start(1)
	w.doors.check = func(_, call string) { w.doors.rekeyed = w.doors.rekeyed || call == "seed" }
	r := w.failsWith(id, broker.StateAmbiguity, "host_key_changed")
	if r.Status != chain.FailedManual || !strings.Contains(r.Failure.Message, "restart-clean") {
		t.Errorf("%s: %s", r.Status, r.Failure.Message)
	}
	noted := stateOf(t, r).SSH.HostKey
	for _, a := range []chain.Action{chain.Resume, chain.RetryStage, chain.Adopt, chain.Rerun} {
		w.act(id, a)
		if r := w.failsWith(id, broker.StateAmbiguity, "host_key_changed"); stateOf(t, r).SSH.HostKey != noted {
			t.Errorf("after %s another key is noted", a)
		}
	}
	if m := w.machine(maassim.Box(1).Serial); m.LastSync.After(stateOf(t, w.run(id)).SyncBaseline) {
		t.Error("it was seeded all the same")
	}
	// Another deployment is another machine.
	w.act(id, chain.RestartClean)
	if r := w.failsWith(id, broker.AgentEnrollmentFailure, "failed_enrollment"); stateOf(t, r).SSH.HostKey == noted {
		t.Error("the key of the deployment before is still noted")
	}
}

// All machines of a site admit its deploy user: another machine, with a tenant on it, may answer at
// a machine's address.
func TestAnotherMachineAtTheAddressStopsForAPerson(t *testing.T) {
	w := unsynced(t)
	w.doors.fails = broker.Errorf(broker.Refused, sshseed.OtherMachine, "another machine answers")
	id := w.start(1)
	r := w.failsWith(id, broker.StateAmbiguity, sshseed.OtherMachine)
	if s := stateOf(t, r); r.Status != chain.FailedManual || s.SSH.HostKey != "" || !s.SSH.SeededAt.IsZero() {
		t.Errorf("%s, and noted is %+v", r.Status, s.SSH)
	}
	w.doors.fails = nil
	w.act(id, chain.Resume)
	if r := w.failsWith(id, broker.AgentEnrollmentFailure, "failed_enrollment"); stateOf(t, r).SSH.SeededAt.IsZero() {
		t.Error("when it is put right, the machine is not seeded")
	}
}

// A person has put the node out of use after its agent had enrolled.
func TestNobodyLogsInToANodeThatIsOutOfUse(t *testing.T) {
	w := unsynced(t)
	w.silent = false
	id := w.start(1)
	w.settle(func() {
		for _, n := range w.book.All() {
			if n.Epoch > 0 && n.Status == broker.Enrolling {
				w.book.Put(n.ID, broker.Quarantined)
			}
		}
	})
	r := w.run(id)
	if f := r.Failure; len(w.doors.calls) > 0 || f == nil || f.Code != "failed_enrollment" || !strings.Contains(f.Message, "quarantined") {
		t.Errorf("%s at %s: %+v; called %q", r.Status, r.Stage, f, w.doors.calls)
	}
}

func TestWhatSSHCannotReachIsAFailureOfConnectivity(t *testing.T) {
	for name, row := range map[string]struct {
		with  func(*world)
		class broker.FailureClass
		code  string
		says  string
	}{
		"nothing answers":       {func(w *world) { w.doors.closed = true }, broker.PostDeployConnectivity, "failed_ssh_seed", "no way in"},
		"it was never up":       {func(w *world) { w.region.Inject(fault(maassim.NeverUp, "")) }, broker.PostDeployConnectivity, "failed_ssh_seed", "no way in"},
		"the login is refused":  {refusing(sshseed.Refused), broker.PostDeployConnectivity, "failed_ssh_seed", "it says no"},
		"the upload is refused": {refusing(sshseed.UploadFailed), broker.PostDeployConnectivity, "failed_ssh_seed", "it says no"},
		"a command fails":       {refusing(sshseed.CommandFailed), broker.HardwareSyncFailure, "failed_ssh_seed", "it says no"},
		"seeding does not help": {func(w *world) { w.doors.unsynced = true }, broker.HardwareSyncFailure, "failed_hw_sync_health", "does not report"},
		"the key is lost":       {func(w *world) { delete(w.secrets.kept, w.site.DeploySSHKeyPath) }, broker.SiteCapabilityMissing, "site_credentials_missing", "SSH key"},
	} {
		t.Run(name, func(t *testing.T) {
			w := unsynced(t)
			row.with(w)
			r := w.failsWith(w.start(1), row.class, row.code)
			if r.Stage != "wait_for_hardware_sync_healthy" || !strings.Contains(r.Failure.Message, row.says) {
				t.Errorf("at %s: %s", r.Stage, r.Failure.Message)
			}
			if m := w.machine(maassim.Box(1).Serial); m.Status != maassim.Deployed {
				t.Errorf("the machine is %s", m.Status)
			}
		})
	}
}

func refusing(code string) func(*world) {
	return func(w *world) { w.doors.fails = broker.Errorf(broker.Refused, code, "it says no") }
}

func TestAWayInThatIsMendedIsUsedOnResume(t *testing.T) {
	w := unsynced(t)
	w.doors.closed = true
	id := w.start(1)
	w.failsWith(id, broker.PostDeployConnectivity, "failed_ssh_seed")
	w.doors.closed = false
	w.act(id, chain.Resume)
	w.failsWith(id, broker.AgentEnrollmentFailure, "failed_enrollment")
}

// Where there is an agent, SSH is not used.
func TestSSHIsNotUsedWhereThereIsAnAgent(t *testing.T) {
	w := unsynced(t)
	w.silent = false
	w.failsWith(w.start(1), broker.HardwareSyncFailure, "failed_hw_sync_health")
	if len(w.doors.calls) > 0 || w.book.Reseeds(w.node("c01").ID) == 0 {
		t.Errorf("calls %q, %d seeds", w.doors.calls, w.book.Reseeds(w.node("c01").ID))
	}
}

// A machine that somebody took gets no SSH login.
func TestSSHIsNotUsedOnAMachineThatIsNotTheRuns(t *testing.T) {
	w := unsynced(t)
	id := w.start(1)
	w.settle(func() {
		if r := w.run(id); r.Stage == "wait_for_hardware_sync_healthy" && r.Waiting != "" {
			_ = w.region.ByHand(maassim.TakenByHand, stateOf(t, r).SystemID)
		}
	})
	if r := w.run(id); r.Failure == nil || r.Failure.Code != "machine_not_ours" || len(w.doors.calls) > 0 {
		t.Errorf("%s %+v, calls %q", r.Status, r.Failure, w.doors.calls)
	}
}

// The addresses of the site's interface for SSH come before the others.
func TestSSHGoesToTheSitesInterface(t *testing.T) {
	w := unsynced(t)
	b := w.box(1)
	b.NICs[1].Network = 1
	w.region.PlugIn(b)
	w.site.DeploySSHIface = "eno8403"
	w.book.PutSite(w.site)
	w.book.RoCE = []broker.RoCEAssignment{{SiteID: w.site.ID, Hostname: "c01", Interface: "eno8403", IPv4CIDR: "172.30.9.61/31"}}
	w.settleFor(w.start(1))
	if !slices.Equal(w.doors.calls, []string{"key 172.30.9.61", "seed 172.30.9.61"}) {
		t.Errorf("calls %q", w.doors.calls)
	}
}

func (w *world) settleFor(id string) chain.Record {
	w.t.Helper()
	w.settle(nil)
	return w.run(id)
}

var _ onboarding.Seeder = (*sshseed.Seeder)(nil)

// Where MAAS does not report which rack serves a machine, the region's own address is used, and the
// run warns of it.
func TestARackThatMAASDoesNotTellOfIsGuessed(t *testing.T) {
	for told, want := range map[bool]string{true: "http://10.10.0.1:5248/MAAS/metadata/status/", false: "http://maas.invalid:5248/MAAS/metadata/status/"} {
		w := unsynced(t)
		w.silent = false
		id := w.start(1)
		w.settle(func() { w.region.SetDHCP(told || w.run(id).Stage != "wait_for_hardware_sync_healthy") })
		s := stateOf(t, w.run(id))
		if got := w.book.Seeded(s.NodeID).Endpoint; got != want+s.SystemID {
			t.Errorf("told %v: led to %q", told, got)
		}
		if warned := strings.Contains(strings.Join(s.Warnings, "\n"), "does not report which rack"); warned == told {
			t.Errorf("told %v: warnings %q", told, s.Warnings)
		}
	}
}
