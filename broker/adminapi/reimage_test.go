package adminapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

// decommissioned lets time pass until a turnover satisfies ok.
func (r *rack) decommissioned(id, what string, ok func(api.DecommissionDetail) bool) api.DecommissionDetail {
	r.t.Helper()
	var last api.DecommissionDetail
	if r.LetPass(func() (bool, time.Duration) {
		last = servertest.Must[api.DecommissionDetail](r.t, r.Broker, http.MethodGet, "/decommissions/"+id, nil)
		return ok(last), whileWaiting(last.Waiting)
	}) {
		return last
	}
	r.t.Fatalf("waited in vain for %s: %s at %s: %s %s %s", what, last.Status, last.CurrentStage, last.Waiting, last.ErrorCode, last.ErrorMessage)
	return last
}

func stoppedWith(code string) func(api.DecommissionDetail) bool {
	return func(d api.DecommissionDetail) bool {
		return d.ErrorCode == code && d.Status == "failed_manual_intervention"
	}
}

// The whole path over a real broker: the old system is shut out and reported, and the node enrols
// only by the token of its reimage and keeps its id.
func TestAReimageIsEnrolledByItsOwnTokenAlone(t *testing.T) {
	r := newRack(t, `{"require_hw_sync":false,"enable_phase2_roce":false,"drain_timeout_seconds":60}`)
	o := r.start(r.box(1))
	waits := r.until(o.OnboardingID, "the agent's turn", atStage("wait_for_agent_enrollment"))
	system := *waits.MAASSystemID
	machine, _ := r.region.Machine(system)
	first := string(enrolToken.Find(machine.UserData))
	r.Rested(r.t)
	old := r.EnrollMachine(t, first, "c01", system).Settle(t)
	r.until(o.OnboardingID, "its end", func(o api.OnboardingDetail) bool { return o.Ended })

	d := servertest.Must[api.Decommission](t, r.Broker, http.MethodPost, "/nodes/c01/decommission", api.DecommissionStart{Mode: "reimage", Erase: "secure", Reason: "patches"})
	r.decommissioned(d.DecommissionID, "the new agent's turn", func(d api.DecommissionDetail) bool { return d.CurrentStage == "wait_for_agent_enrollment" })
	if n := show(t, r.Broker, "c01"); n.Status != "retired" || !n.TurnoverOwed || n.ID != old.NodeID {
		t.Errorf("the node is %s, owed %v", n.Status, n.TurnoverOwed)
	}
	if a := r.Ask(t, r.Token, http.MethodPost, "/nodes/c01/token", api.TokenRequest{Reason: "by hand"}); a.Code() != "node_in_run" {
		t.Errorf("another token: %d %s", a.Status, a.Body)
	}
	r.Rested(r.t)
	if status, code, err := old.Try(http.MethodGet, "/tasks/wait?lanes=exclusive"); err != nil || status != http.StatusForbidden || code != "certificate_denied" {
		t.Errorf("the old system is answered %d %s, %v", status, code, err)
	}
	stopped := r.decommissioned(d.DecommissionID, "the run to stop", stoppedWith("previous_os_alive"))
	if stopped.CurrentStage != "wait_for_agent_enrollment" {
		t.Errorf("it stopped at %s", stopped.CurrentStage)
	}
	drifts := servertest.Must[api.DriftList](t, r.Broker, http.MethodGet, "/reconciliation/drift", nil)
	if len(drifts.Items) != 1 || drifts.Items[0].Rule != "previous_os_alive" || !strings.Contains(drifts.Items[0].Text, "was used from ") {
		t.Errorf("%+v", drifts.Items)
	}
	servertest.Must[api.Decommission](t, r.Broker, http.MethodPost, "/decommissions/"+d.DecommissionID+"/resume", api.RunOrder{Reason: "its disk was pulled"})

	machine, _ = r.region.Machine(system)
	second := string(enrolToken.Find(machine.UserData))
	if second == "" || second == first {
		t.Fatalf("the machine was deployed with %q", machine.UserData)
	}
	r.Rested(r.t)
	fresh := r.EnrollMachine(t, second, "c01", system, servertest.H100s(8))
	if fresh.NodeID != old.NodeID || fresh.Epoch != old.Epoch+1 {
		t.Errorf("it enrolled as %s, epoch %d", fresh.NodeID, fresh.Epoch)
	}
	r.decommissioned(d.DecommissionID, "the GPUs' turn", func(d api.DecommissionDetail) bool { return d.CurrentStage == "scrub_gpu" })
	if n := show(t, r.Broker, "c01"); n.Status != "retired" || !n.TurnoverOwed {
		t.Errorf("with its agent there the node is %s, owed %v", n.Status, n.TurnoverOwed)
	}
	if n := r.region.Count("release"); n != 1 {
		t.Errorf("MAAS was asked for %d releases", n)
	}
	if got := servertest.Must[api.DecommissionDetail](t, r.Broker, http.MethodGet, "/decommissions/"+d.DecommissionID, nil); got.Mode != "reimage" || len(got.Stages) < 18 {
		t.Errorf("%+v", got)
	}
}
