package maassim_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/canonical/gomaasclient/entity"

	"github.com/hostler/hostler/test/maassim"
)

// The log of calls may be printed: no secret that a call brought is in it.
func TestTheLogOfCallsHoldsNoSecret(t *testing.T) {
	r, clock, c := start(t, "3.6")
	box, m := enroll(t, r, clock, c, 1)
	if _, err := c.Machine.Deploy(m.SystemID, &entity.MachineDeployParams{UserData: "cGxhbnRlZA==", DistroSeries: "jammy"}); err != nil {
		t.Fatal(err)
	}
	if err := c.MAASServer.Post("http_proxy", "http://u:planted@proxy"); err != nil {
		t.Fatal(err)
	}
	log := fmt.Sprintf("%+v", r.Calls())
	for _, secret := range []string{box.BMC.Password, "cGxhbnRlZA==", "planted", strings.Split(r.APIKey(), ":")[2]} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %s", secret)
		}
	}
	for _, told := range []string{"create", "deploy", "jammy", m.SystemID, box.BMC.Address} {
		if !strings.Contains(log, told) {
			t.Errorf("the log lacks %s", told)
		}
	}
}

// A workflow of 3.6 writes a deployment that died past the events feed.
func TestADeploymentThatDiesUnseenLeavesNoEvent(t *testing.T) {
	for _, kind := range []maassim.Kind{maassim.DeployDiesUnseen, maassim.PowerFails} {
		r, clock, id := allocated(t, "3.6")
		c := dial(t, r, r.APIKey())
		r.Inject(maassim.Fault{Kind: kind})
		if _, err := c.Machine.Deploy(id, nil); err != nil {
			t.Fatal(err)
		}
		told, err := c.Events.Get(everything(id))
		if err != nil {
			t.Fatal(err)
		}
		clock.pass(time.Hour)
		after, err := c.Events.Get(everything(id))
		if err != nil {
			t.Fatal(err)
		}
		if got := status(t, r, id); got != maassim.FailedDeployment || after.Count != told.Count {
			t.Errorf("%s: %v, told by %v", kind, got, kinds(after)[:after.Count-told.Count])
		}
	}
}

// Each use of a machine has a token of its own, commissioning too.
func TestEachUseHasItsOwnToken(t *testing.T) {
	r, clock, c := start(t, "3.6")
	box := maassim.Box(1)
	r.PlugIn(box)
	m, err := c.Machines.Create(&entity.MachineCreateParams{PowerType: "ipmi"}, map[string]any{
		"power_parameters_power_address": box.BMC.Address, "power_parameters_power_user": box.BMC.User, "power_parameters_power_pass": box.BMC.Password,
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	token := func(want bool) {
		t.Helper()
		now, _ := r.Machine(m.SystemID)
		if (now.Token != "") != want || (want && seen[now.Token]) {
			t.Errorf("token %q in %v, want a fresh one: %v", now.Token, now.Status, want)
		}
		seen[now.Token] = true
	}
	token(true)
	clock.pass(time.Hour)
	token(false)
	for range 2 {
		if _, err := c.Machine.Deploy(m.SystemID, nil); err != nil {
			t.Fatal(err)
		}
		token(false)
		clock.pass(time.Hour)
		token(true)
		if _, err := c.Machine.Release(m.SystemID, &entity.MachineReleaseParams{}); err != nil {
			t.Fatal(err)
		}
		clock.pass(time.Minute)
		token(false)
	}
}

// A commissioning that fails at the power leaves its owner on a machine that is
// Ready, and nobody can allocate it then.
func TestAReadyMachineWithAnOwnerIsNotAvailable(t *testing.T) {
	r, _, _ := start(t, "3.6")
	id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: maassim.Ready})
	r.Inject(maassim.Fault{Kind: maassim.PowerFails})
	for _, call := range []struct {
		path string
		code int
	}{{"machines/" + id + "/?op=commission", 503}, {"machines/?op=allocate", 409}, {"machines/" + id + "/?op=deploy", 409}} {
		if res, body := send(t, r, r.APIKey(), http.MethodPost, call.path, url.Values{"system_id": {id}}); res.StatusCode != call.code {
			t.Errorf("%s: %d %s, want %d", call.path, res.StatusCode, body, call.code)
		}
		if m, _ := r.Machine(id); m.Status != maassim.Ready || m.Owner != "admin" {
			t.Errorf("%v of %q", m.Status, m.Owner)
		}
	}
}

// Tests give a machine back to whom it was.
func TestAMachineGoesBackToItsOwnerAfterTests(t *testing.T) {
	r, clock, _ := start(t, "3.6")
	for n, from := range []maassim.Status{maassim.Allocated, maassim.FailedDeployment, maassim.Deployed, maassim.Ready, maassim.Broken} {
		owner := "anne"
		if from == maassim.Ready || from == maassim.Broken {
			owner = ""
		}
		id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(n), Status: from, Owner: owner})
		send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op=test", nil)
		if m, _ := r.Machine(id); m.Owner == "" || m.Status != maassim.Testing {
			t.Errorf("%v: tested as %q in %v", from, m.Owner, m.Status)
		}
		clock.pass(maassim.Usual.Test)
		if m, _ := r.Machine(id); m.Owner != owner || m.Status != from {
			t.Errorf("%v: back to %q in %v", from, m.Owner, m.Status)
		}
	}
}

// last_sync is set before the machine is Deployed, also where it never gets there.
func TestTheInstallersReportsMoveLastSync(t *testing.T) {
	r, clock, id := allocated(t, "3.4")
	r.Inject(maassim.Fault{Kind: maassim.DeployFails})
	send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op=deploy", url.Values{"enable_hw_sync": {"true"}})
	clock.pass(time.Hour)
	if m, _ := r.Machine(id); m.Status != maassim.FailedDeployment || m.LastSync.IsZero() {
		t.Errorf("%v, last_sync %v", m.Status, m.LastSync)
	}
}
