package maassim_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/canonical/gomaasclient/entity"

	"github.com/hostler/hostler/test/maassim"
)

// The log of calls may be printed: it contains no secret of a call.
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

// In 3.6 a deployment may die without writing an event.
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

// Each use of a machine has its own token, including a commissioning.
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

// A commissioning whose power-on fails leaves its owner on a Ready machine, and nobody can allocate
// the machine then.
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

// After tests a machine returns to its previous status and owner. If the previous status cannot be
// resumed, the machine is Ready without an owner.
func TestWhereTestsLead(t *testing.T) {
	r, clock, _ := start(t, "3.6")
	for n, tc := range []struct {
		from  maassim.Status
		owner string
		to    maassim.Status
		after string
	}{
		{maassim.Allocated, "anne", maassim.Allocated, "anne"},
		{maassim.Deployed, "anne", maassim.Deployed, "anne"},
		{maassim.Reserved, "anne", maassim.Reserved, "anne"},
		{maassim.Ready, "", maassim.Ready, ""},
		{maassim.Broken, "", maassim.Ready, ""},
		{maassim.FailedDeployment, "anne", maassim.Ready, ""},
		{maassim.FailedCommissioning, "", maassim.New, ""},
	} {
		id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(n), Status: tc.from, Owner: tc.owner, Token: tc.owner != ""})
		before, _ := r.Machine(id)
		send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op=test", nil)
		if m, _ := r.Machine(id); m.Status != maassim.Testing || m.Owner == "" || (tc.owner != "" && (m.Owner != tc.owner || m.Token != before.Token)) {
			t.Errorf("%v: tested as %q in %v", tc.from, m.Owner, m.Status)
		}
		clock.pass(maassim.Usual.Test)
		m, _ := r.Machine(id)
		if m.Status != tc.to || m.Owner != tc.after || m.On != (tc.to == maassim.Deployed) {
			t.Errorf("%v: then %v of %q, on %v; want %v of %q", tc.from, m.Status, m.Owner, m.On, tc.to, tc.after)
		}
	}
}

// Leaving rescue mode switches the power only for three statuses; for the others MAAS's next poll
// fails the exit. Only a deployed machine keeps an owner.
func TestWhereRescueModeLeads(t *testing.T) {
	r, clock, c := start(t, "3.4")
	for n, tc := range []struct {
		from, to maassim.Status
		owner    string
	}{
		{maassim.Deployed, maassim.Deployed, "admin"},
		{maassim.Ready, maassim.Ready, ""},
		{maassim.Broken, maassim.Broken, ""},
		{maassim.Allocated, maassim.FailedExitingRescueMode, "admin"},
	} {
		owner := "anne"
		if tc.from == maassim.Ready || tc.from == maassim.Broken {
			owner = ""
		}
		id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(n), Status: tc.from, Owner: owner})
		if _, err := c.Machine.RescueMode(id); err != nil {
			t.Fatal(err)
		}
		clock.pass(time.Hour)
		if _, err := c.Machine.ExitRescueMode(id); err != nil {
			t.Fatal(err)
		}
		clock.pass(time.Hour)
		if m, _ := r.Machine(id); m.Status != tc.to || m.Owner != tc.owner {
			t.Errorf("%v: then %v of %q, want %v of %q", tc.from, m.Status, m.Owner, tc.to, tc.owner)
		}
	}
}

// A machine that is off when it is marked broken is given back completely. A machine that was on
// keeps its annotations.
func TestWhatMarkBrokenTakes(t *testing.T) {
	for _, on := range []bool{true, false} {
		for version, keeps := range map[string]bool{"3.5": false, "3.6": on} {
			r, _, c := start(t, version)
			id := r.Arrange(maassim.Arranged{
				Hardware: maassim.Box(1), Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/jammy", HWSync: true, PowerOn: on,
				Annotations: map[string]string{"run": "r-1"},
			})
			broken, err := c.Machine.MarkBroken(id, "fan")
			if err != nil {
				t.Fatal(err)
			}
			m, _ := r.Machine(id)
			if (m.Owner != "") != keeps || (len(m.Annotations) > 0) != on || m.On || broken.OSystem != "" || broken.EnableHwSync {
				t.Errorf("%s, on %v: %q, %v, power %v, %q", version, on, m.Owner, m.Annotations, m.On, broken.OSystem)
			}
			events, err := c.Events.Get(everything(id))
			if err != nil || !slices.ContainsFunc(events.Events, func(e entity.Event) bool {
				return e.Type == "User marking node broken" && e.Description == "(admin) - fan" && e.UserName == "admin"
			}) {
				t.Errorf("%v, %v", kinds(events), err)
			}
		}
	}
}

// last_sync is set before the machine is Deployed, and also if the deployment fails.
func TestTheInstallersReportsMoveLastSync(t *testing.T) {
	r, clock, id := allocated(t, "3.4")
	r.Inject(maassim.Fault{Kind: maassim.DeployFails})
	send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op=deploy", url.Values{"enable_hw_sync": {"true"}})
	clock.pass(time.Hour)
	if m, _ := r.Machine(id); m.Status != maassim.FailedDeployment || m.LastSync.IsZero() {
		t.Errorf("%v, last_sync %v", m.Status, m.LastSync)
	}
}

// A commissioning whose power-on fails does not change the previous status: this machine was
// deployed before it was marked broken, and is deployed again after mark_fixed.
func TestAPowerFailureLeavesWhereTheMachineGoesBackTo(t *testing.T) {
	r, _, c := start(t, "3.4")
	id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: maassim.Deployed, Owner: "admin", PowerOn: true})
	if _, err := c.Machine.MarkBroken(id, ""); err != nil {
		t.Fatal(err)
	}
	r.Inject(maassim.Fault{Kind: maassim.PowerFails})
	if _, err := c.Machine.Commission(id, &entity.MachineCommissionParams{}); err == nil || status(t, r, id) != maassim.Broken {
		t.Fatalf("%v, in %v", err, status(t, r, id))
	}
	if m, err := c.Machine.MarkFixed(id, ""); err != nil || m.StatusName != "Deployed" {
		t.Errorf("%s, %v", m.StatusName, err)
	}
}

// The feed names the user to whom a machine was allocated.
func TestTheFeedTellsWhoHasTheMachine(t *testing.T) {
	r, _, c := start(t, "3.4")
	id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: maassim.Ready})
	if _, err := c.Machines.Allocate(&entity.MachineAllocateParams{SystemID: id}); err != nil {
		t.Fatal(err)
	}
	events, err := c.Events.Get(everything(id))
	if err != nil || !slices.ContainsFunc(events.Events, func(e entity.Event) bool { return e.Description == "From 'Ready' to 'Allocated' (to admin)" }) {
		t.Errorf("%+v, %v", events, err)
	}
}

// An AUTO address ends when the BMC reports the machine off, except in statuses that need the
// address.
func TestAnAddressEndsWithThePower(t *testing.T) {
	for op, left := range map[string]int{"power_off": 0, "power_on": 1} {
		r, clock, id := allocated(t, "3.4")
		c := dial(t, r, r.APIKey())
		r.Inject(maassim.Fault{Kind: maassim.DeployFails})
		send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op=deploy", nil)
		clock.pass(time.Hour)
		send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op="+op, nil)
		if m, err := c.Machine.Get(id); err != nil || m.StatusName != "Failed deployment" || len(m.IPAddresses) != left {
			t.Errorf("%s: %v, %v, %v", op, m.StatusName, m.IPAddresses, err)
		}
	}
}

// A machine taken by hand is released first: none of our annotations is left.
func TestAMachineTakenByHandHasLostItsMarks(t *testing.T) {
	r, _, _ := start(t, "3.6")
	id := r.Arrange(maassim.Arranged{
		Hardware: maassim.Box(1), Status: maassim.Allocated, Owner: "admin", Token: true, Annotations: map[string]string{"run": "r-1"},
	})
	if err := r.ByHand(maassim.TakenByHand, id); err != nil {
		t.Fatal(err)
	}
	if m, _ := r.Machine(id); m.Owner != "somebody" || len(m.Annotations) > 0 || m.Token != "" {
		t.Errorf("%+v", m)
	}
}

// An event that commits late is not the newest event and does not become the status message.
func TestALateEventIsNoStatusMessage(t *testing.T) {
	r, clock, id := allocated(t, "3.4")
	c := dial(t, r, r.APIKey())
	// A release writes the request, the change and Releasing; the third event is late.
	r.Inject(maassim.Fault{Kind: maassim.EventsUnordered, Skip: 2, After: time.Hour})
	send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op=release", nil)
	clock.pass(2 * time.Hour)
	m, err := c.Machine.Get(id)
	if err != nil || m.StatusMessage != "Released" {
		t.Errorf("%q, %v", m.StatusMessage, err)
	}
	if events, err := c.Events.Get(everything(id)); err != nil || !slices.Contains(kinds(events), "Releasing") {
		t.Errorf("%v, %v", kinds(events), err)
	}
}
