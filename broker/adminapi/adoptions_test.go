package adminapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/maassim"
)

// deployed puts the n-th machine into the rack, already deployed by somebody.
func (r *rack) deployed(n int, hostname string) string {
	r.t.Helper()
	return r.region.Arrange(maassim.Arranged{Hostname: hostname, Hardware: maassim.Box(n), Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/noble", PowerOn: true})
}

// deployedIn is deployed, in a zone of MAAS.
func (r *rack) deployedIn(n int, hostname, zone string) string {
	r.t.Helper()
	return r.region.Arrange(maassim.Arranged{
		Hostname: hostname, Hardware: maassim.Box(n), Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/noble", PowerOn: true, Zone: zone,
	})
}

func (r *rack) adopt(m api.AdoptedMachine) api.Onboarding {
	r.t.Helper()
	return servertest.Must[api.Onboarding](r.t, r.Broker, http.MethodPost, "/adoptions", api.AdoptionStart{SiteID: "dc1", AdoptedMachine: m, Reason: "brownfield"})
}

// boxFacts are the facts that the agent of the n-th machine reports.
func boxFacts(n int) *taskcatalog.Facts {
	f := servertest.H100s(8)
	f.DisksListed = true
	for _, d := range maassim.Box(n).Disks {
		f.Disks = append(f.Disks, taskcatalog.DiskFacts{Name: d.Name, Model: d.Model, Serial: d.Serial, SizeBytes: d.Size})
	}
	return f
}

// wrote lists the requests to MAAS that are not reads.
func (r *rack) wrote() (out []string) {
	for _, c := range r.region.Calls() {
		if c.Method != http.MethodGet {
			out = append(out, c.Op)
		}
	}
	return out
}

func TestADeployedMachineIsAdoptedAndMAASIsLeftAlone(t *testing.T) {
	r := newRack(t, `{}`)
	id := r.deployed(1, "c01")
	history := len(r.region.History(id))
	o := r.adopt(api.AdoptedMachine{SystemID: id, SKUID: "h100.8gpu"})
	if o.Kind != "node.adoption" || o.Hostname != id || o.MAASSystemID == nil || *o.MAASSystemID != id {
		t.Errorf("started as %+v", o)
	}
	waits := r.until(o.OnboardingID, "its agent's turn", atStage("wait_for_agent_enrollment"))
	if waits.NodeID == nil || waits.Hostname != "c01" || waits.LastObserved.MAASStatus != "Deployed" || waits.LastObserved.Owner != "admin" || len(waits.Stages) != 5 {
		t.Fatalf("before its agent comes it is %+v", waits)
	}
	for code, again := range map[string]api.AdoptedMachine{"onboarding_running": {SystemID: id}, "adoption_invalid": {SystemID: "../x"}, "sku_not_found": {SystemID: "zzz", SKUID: "none"}} {
		if a := r.Ask(t, r.Token, http.MethodPost, "/adoptions", api.AdoptionStart{SiteID: "dc1", AdoptedMachine: again}); a.Code() != code {
			t.Errorf("want %s: %d %s", code, a.Status, a.Body)
		}
	}

	r.Rested(r.t)
	boot := servertest.Must[api.NodeBootstrap](t, r.Broker, http.MethodPost, "/nodes/"+*waits.NodeID+"/token", api.TokenRequest{Reason: "to install it"})
	if !strings.Contains(boot.Command, boot.Token) || !strings.Contains(boot.Command, id) || boot.CloudConfig != "" {
		t.Fatalf("it is installed by %q", boot.Command)
	}
	r.EnrollMachine(t, boot.Token, "c01", id, boxFacts(1)).Settle(t)
	done := r.until(o.OnboardingID, "its end", func(o api.OnboardingDetail) bool { return o.Ended })
	n := show(t, r.Broker, "c01")
	if done.Status != "completed" || n.Status != "active" || n.OnboardingMode != "adopted" || n.MAASSystemID != id || n.SKU != "h100.8gpu" || n.SSHUsername != "" || n.Port != 0 || n.IPMIIP != maassim.Box(1).BMC.Address {
		t.Errorf("it ended %s, the node %+v", done.Status, n)
	}
	if w := r.wrote(); len(w) > 0 || len(r.region.History(id)) != history {
		t.Errorf("it asked MAAS for %v: %+v", w, r.region.History(id)[history:])
	}
	r.tellsNone(o.OnboardingID, map[string]string{"the enrol token": boot.Token, "the MAAS token": strings.Split(r.region.APIKey(), ":")[2]})
	if a := r.Ask(t, r.Token, http.MethodPost, "/adoptions", api.AdoptionStart{SiteID: "dc1", AdoptedMachine: api.AdoptedMachine{SystemID: id}}); a.Code() != "machine_bound" || !strings.Contains(string(a.Body), n.ID) {
		t.Errorf("the same again: %d %s", a.Status, a.Body)
	}
	rows := servertest.Must[api.AuditList](t, r.Broker, http.MethodGet, "/audit?action=run.start", nil)
	if seen := documented(t, r.Broker); seen["node.adoption.completed"] != 1 {
		t.Errorf("told was %v", seen)
	}
	rows.Items = slices.DeleteFunc(rows.Items, func(e api.AuditEntry) bool { return e.Code != "" }) // without refusals
	if len(rows.Items) != 1 || rows.Items[0].Reason != "brownfield" || rows.Items[0].Subject != "run/"+o.OnboardingID || !strings.Contains(string(rows.Items[0].After), "node.adoption") {
		t.Errorf("the start is in the audit log as %+v", rows.Items)
	}
}

// The install command is run on the wrong machine: a machine with other disks, and a machine with
// the right disks and other GPUs.
func TestAnAgentThatComesFromOtherHardwareIsQuarantined(t *testing.T) {
	gpus := boxFacts(1)
	gpus.GPUs = gpus.GPUs[1:]
	silent := boxFacts(1)
	silent.Disks, silent.DisksListed = nil, false
	for name, row := range map[string]struct {
		facts *taskcatalog.Facts
		waits string
		why   string
	}{
		"other disks":                 {facts: boxFacts(2), why: "is not in the enrolled machine: check whether the command was run on another machine"},
		"other GPUs":                  {facts: gpus, why: "the machine has 7 GPUs, and SKU h100.8gpu has 8"},
		"an agent that says nothing":  {facts: nil, waits: "has not reported the machine's hardware"},
		"an agent that sees no disks": {facts: silent, waits: "does not report its disks"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t, `{}`)
			id := r.deployed(1, "c01")
			o := r.adopt(api.AdoptedMachine{SystemID: id, SKUID: "h100.8gpu"})
			waits := r.until(o.OnboardingID, "its agent's turn", atStage("wait_for_agent_enrollment"))
			r.Rested(r.t)
			boot := servertest.Must[api.NodeBootstrap](t, r.Broker, http.MethodPost, "/nodes/"+*waits.NodeID+"/token", api.TokenRequest{})
			r.EnrollMachine(t, boot.Token, "c01", id, row.facts).Settle(t)
			if row.waits != "" {
				r.until(o.OnboardingID, "what it waits for", func(o api.OnboardingDetail) bool { return strings.Contains(o.Waiting, row.waits) })
				if n := show(t, r.Broker, "c01"); n.Status != "enrolling" {
					t.Errorf("the node is %s", n.Status)
				}
				return
			}
			stopped := r.until(o.OnboardingID, "its end", func(o api.OnboardingDetail) bool { return o.ErrorCode != "" })
			n := show(t, r.Broker, "c01")
			if stopped.Status != "failed_manual_intervention" || stopped.FailureClass != "hardware_mismatch" || !strings.Contains(stopped.ErrorMessage, row.why) || n.Status != "quarantined" || !strings.Contains(n.StatusReason, row.why) {
				t.Errorf("it is %s %s: %s; the node %s: %s", stopped.Status, stopped.FailureClass, stopped.ErrorMessage, n.Status, n.StatusReason)
			}
			refusedAction(t, r.Broker, r.Token, "c01", "activate", api.NodeAction{Reason: "it looks well"}, "hardware_mismatch")
			if w := r.wrote(); len(w) > 0 {
				t.Errorf("it asked MAAS for %v", w)
			}
			// From now on a person keeps the node out, and no run lets it in.
			for _, reason := range []string{"it smells", "it smells all the same"} {
				if got := act(t, r.Broker, "c01", "quarantine", api.NodeAction{Reason: reason}); got.Node.Status != "quarantined" || got.Node.StatusReason != "it smells" {
					t.Errorf("it is %s: %s", got.Node.Status, got.Node.StatusReason)
				}
			}
			rows := servertest.Must[api.AuditList](t, r.Broker, http.MethodGet, "/audit?limit=1000&action=node.transition", nil).Items
			if n := len(slices.DeleteFunc(rows, func(e api.AuditEntry) bool { return e.Reason != "it smells" || e.Actor != "admin" })); n != 1 {
				t.Errorf("that they do is audited %d times", n)
			}
		})
	}
}

func TestAnOnboardedMachineWithOtherGPUsThanItsSKUIsNotLetIn(t *testing.T) {
	r := newRack(t, `{"require_hw_sync":false,"enable_phase2_roce":false}`)
	o := r.start(r.box(1))
	waits := r.until(o.OnboardingID, "the agent's turn", atStage("wait_for_agent_enrollment"))
	machine, _ := r.region.Machine(*waits.MAASSystemID)
	r.Rested(r.t)
	r.EnrollMachine(t, string(enrolToken.Find(machine.UserData)), "c01", *waits.MAASSystemID, servertest.H100s(7)).Settle(t)
	stopped := r.until(o.OnboardingID, "its end", func(o api.OnboardingDetail) bool { return o.ErrorCode != "" })
	if n := show(t, r.Broker, "c01"); stopped.FailureClass != "hardware_mismatch" || n.Status != "enrolling" {
		t.Errorf("it is %s: %s; the node %s", stopped.FailureClass, stopped.ErrorMessage, n.Status)
	}
}

func TestACancelledAdoptionGivesNoToken(t *testing.T) {
	r := newRack(t, `{}`)
	id := r.deployed(1, "c01")
	o := r.adopt(api.AdoptedMachine{SystemID: id, Hostname: "c01"})
	waits := r.until(o.OnboardingID, "its agent's turn", atStage("wait_for_agent_enrollment"))
	if a := r.Ask(t, r.Token, http.MethodPost, "/onboardings/"+o.OnboardingID+"/cancel", api.ReasonBody{Reason: "wrong one"}); a.Status != http.StatusOK {
		t.Fatalf("cancel: %d %s", a.Status, a.Body)
	}
	gone := r.until(o.OnboardingID, "its end", func(o api.OnboardingDetail) bool { return o.Ended })
	if a := r.Ask(t, r.Token, http.MethodPost, "/nodes/"+*waits.NodeID+"/token", api.TokenRequest{}); gone.Status != "cancelled" || a.Status/100 == 2 {
		t.Errorf("after it was cancelled (%s) its node gets a token: %d %s", gone.Status, a.Status, a.Body)
	}
	if w := r.wrote(); len(w) > 0 {
		t.Errorf("it asked MAAS for %v", w)
	}
}

// A plan distinguishes a broken machine, a machine of another user, and a missing machine.
func TestAPlanNamesTheMachinesThatAreRefused(t *testing.T) {
	r := newRack(t, `{}`)
	arrange := func(n int, status maassim.Status, owner string) api.AdoptedMachine {
		return api.AdoptedMachine{SystemID: r.region.Arrange(maassim.Arranged{Hardware: maassim.Box(n), Hostname: fmt.Sprintf("c0%d", n), Status: status, Owner: owner})}
	}
	batch := api.AdoptionBatch{SiteID: "dc1", Machines: []api.AdoptedMachine{
		arrange(1, maassim.Deployed, "admin"), arrange(2, maassim.Broken, ""), arrange(3, maassim.Deployed, "cloud-team"), {SystemID: "zzzzzz"},
	}}
	plan := servertest.Must[api.OnboardingPlan](t, r.Broker, http.MethodPost, "/adoptions/plan", batch)
	want := fmt.Sprint([]string{batch.Machines[1].SystemID + " machine_broken", batch.Machines[2].SystemID + " machine_of_other_user", "zzzzzz machine_unknown"})
	if got := fmt.Sprint(refusedOf(&plan)); got != want {
		t.Errorf("refused are %s, want %s", got, want)
	}
	r.region.Inject(maassim.Fault{Kind: maassim.Unavailable, Times: -1})
	if a := r.Ask(t, r.Token, http.MethodPost, "/adoptions/plan", batch); a.Code() != "maas_unreached" {
		t.Errorf("without MAAS it is planned: %d %s", a.Status, a.Body)
	}
}

func refusedOf(plan *api.OnboardingPlan) (out []string) {
	for _, r := range plan.Refused {
		out = append(out, r.SystemID+" "+r.Code)
	}
	return out
}

func TestABatchOfAdoptionsIsListedAndActedOnAsOnboardings(t *testing.T) {
	r := newRack(t, `{"batch_max_parallel":3}`)
	ids := []string{r.deployed(1, "c01"), r.deployed(2, "c02"), r.deployed(3, "c03")}
	batch := api.AdoptionBatch{SiteID: "dc1", SKUID: "h100.8gpu", Machines: []api.AdoptedMachine{{SystemID: ids[0]}, {SystemID: ids[1], Hostname: "c99"}, {SystemID: ids[2]}}}
	twice := batch
	twice.Machines = append(twice.Machines, api.AdoptedMachine{SystemID: ids[0]})
	if a := r.Ask(t, r.Token, http.MethodPost, "/adoptions/batch", twice); a.Code() != "adoption_invalid" {
		t.Errorf("a machine twice: %d %s", a.Status, a.Body)
	}
	plan := servertest.Must[api.OnboardingPlan](t, r.Broker, http.MethodPost, "/adoptions/plan", batch)
	if len(plan.Machines) != 3 || plan.Machines[0].SKUID != "h100.8gpu" || len(plan.Stages) != 5 || plan.Parallel != 3 {
		t.Errorf("planned as %+v", plan)
	}
	if got := fmt.Sprint(refusedOf(&plan)); got != "["+ids[1]+" hostname_mismatch]" {
		t.Errorf("the plan refuses %s", got)
	}
	for _, s := range plan.Stages {
		if s.Destructive != "" {
			t.Errorf("stage %s destroys %s", s.Stage, s.Destructive)
		}
	}
	if l := servertest.Must[api.OnboardingList](t, r.Broker, http.MethodGet, "/onboardings", nil); len(l.Items) != 0 {
		t.Fatalf("a plan, or a refused batch, began %+v", l.Items)
	}

	started := servertest.Must[api.OnboardingBatchStarted](t, r.Broker, http.MethodPost, "/adoptions/batch", batch)
	for _, run := range []int{0, 2} {
		r.until(started.Onboardings[run].OnboardingID, "its agent's turn", atStage("wait_for_agent_enrollment"))
	}
	failed := r.until(started.Onboardings[1].OnboardingID, "its failure", func(o api.OnboardingDetail) bool { return o.ErrorCode != "" })
	if failed.ErrorCode != "hostname_mismatch" {
		t.Errorf("it failed with %s", failed.ErrorCode)
	}
	l := servertest.Must[api.OnboardingList](t, r.Broker, http.MethodGet, "/onboardings?batch_id="+started.BatchID, nil)
	if len(l.Items) != 3 || l.Batch == nil || l.Batch.Counts["running"] != 2 || l.Batch.Counts["failed_manual_intervention"] != 1 {
		t.Errorf("the batch is %+v", l.Batch)
	}
	if l := servertest.Must[api.OnboardingList](t, r.Broker, http.MethodGet, "/onboardings?hostname=c03", nil); len(l.Items) != 1 || l.Items[0].Kind != "node.adoption" {
		t.Errorf("by its hostname there is %+v", l.Items)
	}
	retried := servertest.Must[api.OnboardingBatchRetried](t, r.Broker, http.MethodPost, "/onboardings/batch/"+started.BatchID+"/retry", api.ReasonBody{Reason: "looked"})
	if len(retried.Retried) != 1 || retried.Retried[0].OnboardingID != started.Onboardings[1].OnboardingID {
		t.Errorf("retried %+v", retried)
	}
	viewer := r.NewToken(t, api.TokenCreate{Name: "ann", Role: "viewer"})
	if a := r.Ask(t, viewer, http.MethodPost, "/adoptions/batch", batch); a.Code() != "role_insufficient" {
		t.Errorf("a viewer: %d %s", a.Status, a.Body)
	}
	elsewhere := r.NewToken(t, api.TokenCreate{Name: "dc2-op", Role: "operator", Sites: []string{"dc2"}})
	for _, path := range []string{"/adoptions/batch", "/adoptions/plan"} {
		if a := r.Ask(t, elsewhere, http.MethodPost, path, batch); a.Status != http.StatusNotFound {
			t.Errorf("%s, of another site: %d %s", path, a.Status, a.Body)
		}
	}
	if w := r.wrote(); len(w) > 0 {
		t.Errorf("they asked MAAS for %v", w)
	}
}
