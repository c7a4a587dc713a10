package adminapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

// fleet is a rack with active nodes.
func fleet(t *testing.T, hostnames ...string) *rack {
	t.Helper()
	r := newRack(t, `{"batch_max_parallel":2,"batch_stop_after_failures":4}`)
	for _, h := range hostnames {
		site, name, _ := strings.Cut(h, "/")
		r.NewNode(t, api.NodeCreate{Hostname: name, Site: site}).Settle(t)
	}
	return r
}

// still keeps runs from moving.
func (r *rack) still() *rack {
	r.t.Helper()
	servertest.Must[api.FreezeResult](r.t, r.Broker, http.MethodPost, "/freeze", api.FreezePut{Reason: "test"})
	return r
}

// letIn puts a tenant on a node, in the broker's records.
func (r *rack) letIn(node, allocation, tenant string) {
	r.t.Helper()
	servertest.Must[api.Task](r.t, r.Broker, http.MethodPost, "/nodes/"+node+"/tasks", api.TaskCreate{
		Type: "allocation.provision_user", Params: []byte(`{"allocation_id":"` + allocation + `","username":"u","ssh_keys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIA2gT4F2m5C1yqXZ7u0cSxkq1sBzqH4q5l0S9m3v0aA u"],"tenant":"` + tenant + `"}`),
	})
}

func (r *rack) turnovers(query string) api.DecommissionList {
	r.t.Helper()
	return servertest.Must[api.DecommissionList](r.t, r.Broker, http.MethodGet, "/decommissions?"+query, nil)
}

func batchOf(nodes ...string) api.DecommissionBatch {
	return api.DecommissionBatch{Nodes: nodes, DecommissionStart: api.DecommissionStart{Mode: "soft_reset", Reason: "the tenants left"}}
}

func TestABatchOfTurnoversIsWholeOrNotAtAll(t *testing.T) {
	r := fleet(t, "dc1/g1", "dc1/g2", "dc1/g3", "dc1/busy", "/loner")
	r.letIn("g2", "a-2", "acme")
	r.letIn("g3", "a-3", "emca")
	r.still()
	busy := servertest.Must[api.Decommission](t, r.Broker, http.MethodPost, "/nodes/busy/decommission", batchOf().DecommissionStart)

	forced := func(b api.DecommissionBatch) api.DecommissionBatch { b.ForceRelease = true; return b }
	for name, row := range map[string]struct {
		send   api.DecommissionBatch
		status int
		code   string
		says   []string
	}{
		"tenants are there":   {batchOf("g1", "g2", "g3"), http.StatusConflict, "allocation_live", []string{"on 2 of them", "(g2): allocation a-2 of tenant acme", "(g3): allocation a-3 of tenant emca", "--force-release"}},
		"a tenant is there":   {batchOf("g1", "g2"), http.StatusConflict, "allocation_live", []string{"a-2 of tenant acme"}},
		"a run has one":       {forced(batchOf("g1", "g2", "busy")), http.StatusConflict, "node_in_run", []string{busy.DecommissionID}},
		"two sites":           {batchOf("g1", "loner"), http.StatusUnprocessableEntity, "batch_sites", []string{"dc1", "no site", "one batch for each site"}},
		"one is named twice":  {batchOf("g1", "dc1/g1"), http.StatusUnprocessableEntity, "turnover_invalid", []string{"the same node"}},
		"one is not there":    {batchOf("g1", "g9"), http.StatusNotFound, "node_not_found", nil},
		"MAAS has none of it": {api.DecommissionBatch{Nodes: []string{"g1"}, DecommissionStart: api.DecommissionStart{Mode: "reimage", Reason: "r"}}, http.StatusUnprocessableEntity, "turnover_invalid", nil},
		"no nodes":            {batchOf(), http.StatusUnprocessableEntity, "invalid_request", nil},
		"without a reason":    {api.DecommissionBatch{Nodes: []string{"g1"}, DecommissionStart: api.DecommissionStart{Mode: "soft_reset", Reason: " "}}, http.StatusUnprocessableEntity, "reason_missing", nil},
		"its profile is gone": {api.DecommissionBatch{Nodes: []string{"g1"}, DecommissionStart: api.DecommissionStart{Mode: "soft_reset", ProfileID: "none", Reason: "r"}}, http.StatusNotFound, "profile_not_found", nil},
	} {
		a := r.Ask(t, r.Token, http.MethodPost, "/decommissions/batch", row.send)
		if a.Status != row.status || a.Code() != row.code {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
		for _, says := range row.says {
			if !strings.Contains(string(a.Body), says) {
				t.Errorf("%s: it does not say %q: %s", name, says, a.Body)
			}
		}
	}
	for _, node := range []string{"g2", "g3"} {
		rows := servertest.Must[api.AuditList](t, r.Broker, http.MethodGet, "/audit?action=turnover.refused&node="+node, nil)
		if len(rows.Items) == 0 || rows.Items[0].Code != "allocation_live" {
			t.Errorf("of %s the audit log has %+v", node, rows.Items)
		}
	}
	if all := r.turnovers(""); len(all.Items) != 1 {
		t.Fatalf("after refusals there are %d runs", len(all.Items))
	}

	plan := servertest.Must[api.DecommissionBatchPlan](t, r.Broker, http.MethodPost, "/decommissions/plan", batchOf("g1", "g2"))
	if len(plan.Nodes) != 2 || len(plan.Nodes[0].Live) != 0 || plan.Nodes[1].Live[0].Tenant != "acme" || plan.Parallel != 2 || plan.StopAfter != 4 || len(plan.Stages) == 0 || plan.ExpectedSeconds == 0 || plan.Site != "dc1" {
		t.Errorf("the plan is %+v", plan)
	}

	started := servertest.Must[api.DecommissionBatchStarted](t, r.Broker, http.MethodPost, "/decommissions/batch", forced(batchOf("g1", "g2", "g3")))
	if len(started.Decommissions) != 3 || started.Decommissions[1].Hostname != "g2" || started.Decommissions[1].NodeID != plan.Nodes[1].Node.ID {
		t.Fatalf("started %+v", started)
	}
	mine := r.turnovers("batch_id=" + started.BatchID)
	if len(mine.Items) != 3 || mine.Batch == nil || mine.Batch.Site != "dc1" || mine.Batch.Counts["pending"] != 3 || mine.Batch.Parallel != 2 || mine.Batch.StopAfter != 4 || mine.Items[0].BatchID != started.BatchID {
		t.Errorf("the batch is %+v", mine)
	}
	if all := r.turnovers("status=live"); len(all.Items) != 4 {
		t.Errorf("%d runs live", len(all.Items))
	}
	if of := r.turnovers("node_id=g2"); len(of.Items) != 1 || of.Items[0].DecommissionID != started.Decommissions[1].DecommissionID {
		t.Errorf("of one node: %+v", of.Items)
	}
	if of := r.turnovers("node_id=g2&mode=reimage"); len(of.Items) != 0 {
		t.Errorf("reimages of one node: %+v", of.Items)
	}
	alone := servertest.Must[api.DecommissionBatchStarted](t, r.Broker, http.MethodPost, "/decommissions/batch", batchOf("loner"))
	if state := r.turnovers("batch_id=" + alone.BatchID).Batch; state == nil || state.Site != "" || state.Parallel != 10 {
		t.Errorf("a batch of a node without a site is %+v", state)
	}
}

// A plan names the machine, its present and former tenants, and the refusal of a start. A start is
// refused for no reason that the plan does not name.
func TestAPlanTellsWhoseTheNodeIsAndHowItWouldBeRefused(t *testing.T) {
	r := fleet(t)
	boot := servertest.Must[api.NodeBootstrap](t, r.Broker, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "g1", Site: "dc1"})
	n := r.EnrollMachine(t, boot.Token, "g1", "", &taskcatalog.Facts{ChassisSerial: "7C3K2X3"}).Settle(t)
	r.letIn("g1", "a-1", "acme")
	d, task := n.Next(t)
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.ProvisionUserResult{UID: 2000, GID: 2000, Home: "/home/u", Created: true}, taskcatalog.Report{})
	r.still()
	if got := show(t, r.Broker, "g1").Serial; got != "7C3K2X3" {
		t.Errorf("the node is shown with serial %q", got)
	}
	for _, filter := range []string{"serial=7c3k2x3", "tenant=acme", "hostname=G1", "tenant=acme&updated_since=2020-01-01T00:00:00Z"} {
		rows := servertest.Must[api.NodeList](t, r.Broker, http.MethodGet, "/nodes?"+filter, nil).Items
		if len(rows) != 1 || rows[0].Hostname != "g1" || rows[0].Tenant != "acme" || rows[0].AllocationID != "a-1" || rows[0].Serial != "7C3K2X3" {
			t.Errorf("the list by %s has %+v", filter, rows)
		}
	}
	for _, filter := range []string{"serial=7c3k2x", "tenant=globex", "sku=h100", "updated_since=2100-01-01T00:00:00Z"} {
		if rows := servertest.Must[api.NodeList](t, r.Broker, http.MethodGet, "/nodes?"+filter, nil).Items; len(rows) != 0 {
			t.Errorf("the list by %s has %+v", filter, rows)
		}
	}
	asks := []struct {
		path                  string
		plain, another, force any
	}{
		{"/nodes/g1/decommission", batchOf().DecommissionStart, api.DecommissionStart{Mode: "soft_reset", ForceRelease: true, ForceAllocations: []string{"a-0"}, Reason: "r"}, api.DecommissionStart{Mode: "soft_reset", ForceRelease: true, Reason: "r"}},
		{"/nodes/g1/storage-cleanup", api.StorageCleanupStart{Scope: "local", Reason: "r"}, api.StorageCleanupStart{Scope: "local", ForceRelease: true, ForceAllocations: []string{}, Reason: "unpaid"}, api.StorageCleanupStart{Scope: "local", ForceRelease: true, ForceAllocations: []string{"a-1"}, Reason: "unpaid"}},
	}
	for _, ask := range asks {
		plan := servertest.Must[api.DecommissionPlan](t, r.Broker, http.MethodPost, ask.path+"/plan", ask.plain)
		if plan.Node.Serial != "7C3K2X3" || len(plan.Live) != 1 || plan.Last != nil || plan.Refused == nil || plan.Refused.Code != "allocation_live" || !strings.Contains(plan.Refused.Detail, "a-1 of tenant acme") {
			t.Errorf("%s: %+v", ask.path, plan)
		}
		if a := r.Ask(t, r.Token, http.MethodPost, ask.path, ask.plain); a.Code() != "allocation_live" || !strings.Contains(string(a.Body), "a-1 of tenant acme") {
			t.Errorf("%s: %d %s", ask.path, a.Status, a.Body)
		}
		// The person who said yes was shown another allocation, or none.
		if a := r.Ask(t, r.Token, http.MethodPost, ask.path, ask.another); a.Code() != "allocation_live" || !strings.Contains(string(a.Body), "a-1 of tenant acme") {
			t.Errorf("%s, of another: %d %s", ask.path, a.Status, a.Body)
		}
		if plan = servertest.Must[api.DecommissionPlan](t, r.Broker, http.MethodPost, ask.path+"/plan", ask.force); plan.Refused != nil {
			t.Errorf("%s by force: %+v", ask.path, plan.Refused)
		}
	}
	if batch := servertest.Must[api.DecommissionBatchPlan](t, r.Broker, http.MethodPost, "/decommissions/plan", batchOf("g1")); batch.Refused == nil || batch.Nodes[0].Node.Serial == "" {
		t.Errorf("a batch: %+v", batch)
	}
	if runs := r.turnovers(""); len(runs.Items) != 0 {
		t.Fatalf("plans and refusals have begun %+v", runs.Items)
	}
	forced := servertest.Must[api.Decommission](t, r.Broker, http.MethodPost, asks[1].path, asks[1].force)
	if !forced.ForceRelease || forced.Mode != "storage_cleanup" {
		t.Errorf("%+v", forced)
	}
	unsaid := api.StorageCleanupStart{Scope: "local", ForceRelease: true, Reason: " "}
	if a := r.Ask(t, r.Token, http.MethodPost, asks[1].path, unsaid); a.Code() != "reason_missing" {
		t.Errorf("by force without a reason: %d %s", a.Status, a.Body)
	}
}

// A platform admin's override lets a node in, and a stopped turnover would undo that. The refusal
// says what must be done first.
func TestAStoppedTurnoverIsCancelledBeforeItsNodeIsLetIn(t *testing.T) {
	r := fleet(t, "dc1/g1").still()
	run := servertest.Must[api.Decommission](t, r.Broker, http.MethodPost, "/nodes/g1/decommission", batchOf().DecommissionStart).DecommissionID
	do := func(action string) {
		t.Helper()
		servertest.Must[api.Decommission](t, r.Broker, http.MethodPost, "/decommissions/"+run+"/"+action, api.RunOrder{Reason: "r"})
	}
	do("mark-manual-intervention")
	act(t, r.Broker, "g1", "quarantine", api.NodeAction{Reason: "it was looked at"})
	in := api.NodeAction{Override: true, Reason: "a test machine"}
	for _, send := range []api.NodeAction{in, {Reason: "r"}} {
		a := r.Ask(t, r.Token, http.MethodPost, "/nodes/g1/actions/activate", send)
		if a.Code() != "node_in_run" || !strings.Contains(string(a.Body), "hostler decommission cancel "+run) || !strings.Contains(string(a.Body), "hostler decommission resume "+run) {
			t.Errorf("with %+v: %d %s", send, a.Status, a.Body)
		}
	}
	if h := show(t, r.Broker, "g1").Handout; !strings.Contains(h.Reasons[1].NextAction, "hostler decommission show "+run) {
		t.Errorf("%+v", h.Reasons)
	}
	servertest.Must[api.FreezeResult](t, r.Broker, http.MethodPost, "/unfreeze", api.FreezePut{Reason: "test"})
	do("cancel")
	r.decommissioned(run, "its end", func(d api.DecommissionDetail) bool { return d.Ended })
	act(t, r.Broker, "g1", "activate", in)
	if n := show(t, r.Broker, "g1"); n.Status != "active" || n.TurnoverOwed || !n.Handout.MayBeHandedOut {
		t.Errorf("the node is %s, owed %v: %+v", n.Status, n.TurnoverOwed, n.Handout)
	}
}

// Only a platform admin accepts a downgrade, with a reason, and only a downgrade on a certificate
// of the run. Every attempt is audited.
func TestADowngradeIsAcceptedOnlyAsACertificateHasIt(t *testing.T) {
	r := fleet(t, "dc1/g1").still()
	run := servertest.Must[api.Decommission](t, r.Broker, http.MethodPost, "/nodes/g1/decommission", batchOf().DecommissionStart).DecommissionID
	op := r.NewToken(t, api.TokenCreate{Name: "op", Role: "operator"})
	word := api.DowngradeAccept{Device: "S5X", Reason: "same project"}
	for name, row := range map[string]struct {
		token, run string
		send       api.DowngradeAccept
		code       string
	}{
		"an operator":       {op, run, word, "role_insufficient"},
		"without a reason":  {r.Token, run, api.DowngradeAccept{Device: "S5X", Reason: " "}, "reason_missing"},
		"without a device":  {r.Token, run, api.DowngradeAccept{Reason: "r"}, "invalid_request"},
		"of no run":         {r.Token, "r-none", word, "run_not_found"},
		"of no certificate": {r.Token, run, word, "certificate_missing"},
	} {
		if a := r.Ask(t, row.token, http.MethodPost, "/decommissions/"+row.run+"/accept-downgrade", row.send); a.Code() != row.code {
			t.Errorf("%s: %d %s, want %s", name, a.Status, a.Body, row.code)
		}
	}
	rows := servertest.Must[api.AuditList](t, r.Broker, http.MethodGet, "/audit?action=certificate.accept_downgrade", nil)
	if len(rows.Items) != 2 {
		t.Errorf("the audit log has %+v", rows.Items)
	}
}

// Only the failed runs of a batch are retried. A batch of another site is not visible.
func TestWhatFailedOfABatchOfTurnoversIsTriedAgain(t *testing.T) {
	r := fleet(t, "dc1/g1", "dc1/g2").still()
	started := servertest.Must[api.DecommissionBatchStarted](t, r.Broker, http.MethodPost, "/decommissions/batch", batchOf("g1", "g2"))
	first := started.Decommissions[0].DecommissionID
	retry := "/decommissions/batch/" + started.BatchID + "/retry"
	servertest.Must[api.Decommission](t, r.Broker, http.MethodPost, "/decommissions/"+first+"/mark-manual-intervention", api.RunOrder{Reason: "look first"})
	if did := servertest.Must[api.DecommissionBatchRetried](t, r.Broker, http.MethodPost, retry, api.ReasonBody{}); len(did.Retried)+len(did.Refused) != 0 || did.Continued {
		t.Errorf("a person stopped one, nothing failed, and retried is %+v", did)
	}
	elsewhere := r.NewToken(t, api.TokenCreate{Name: "elsewhere", Role: "operator", Sites: []string{"dc2"}})
	for path, code := range map[string]string{
		"POST " + retry: "batch_not_found", "GET /decommissions?batch_id=" + started.BatchID: "batch_not_found", "GET /decommissions/" + first: "run_not_found",
		"POST /onboardings/batch/" + started.BatchID + "/retry": "batch_not_found",
	} {
		method, at, _ := strings.Cut(path, " ")
		if a := r.Ask(t, elsewhere, method, at, body(method)); a.Code() != code {
			t.Errorf("%s: %d %s, want %s", path, a.Status, a.Body, code)
		}
	}
	// The runs and batches of one noun are not visible to another noun.
	if a := r.Ask(t, r.Token, http.MethodPost, "/onboardings/batch/"+started.BatchID+"/retry", `{}`); a.Code() != "batch_not_found" {
		t.Errorf("as a batch of onboardings: %d %s", a.Status, a.Body)
	}
	if a := r.Ask(t, elsewhere, http.MethodPost, "/decommissions/batch", batchOf("g1")); a.Code() != "node_not_found" {
		t.Errorf("begun by a token of another site: %d %s", a.Status, a.Body)
	}
}

// A request repeated after a lost answer begins nothing twice.
func TestATurnoverThatIsAskedAgainUnderItsKeyIsTheSame(t *testing.T) {
	r := fleet(t, "dc1/g1", "dc1/g2", "dc1/g3", "dc1/g4").still()
	one := batchOf().DecommissionStart
	first := begun[api.Decommission](t, r.AskOnce(t, "k1", r.Token, http.MethodPost, "/nodes/g1/decommission", one))
	if again := begun[api.Decommission](t, r.AskOnce(t, "k1", r.Token, http.MethodPost, "/nodes/g1/decommission", one)); again.DecommissionID != first.DecommissionID {
		t.Errorf("asked again it is %s, and was %s", again.DecommissionID, first.DecommissionID)
	}
	cleanup := api.StorageCleanupStart{Scope: "local", Reason: "r"}
	clean := begun[api.Decommission](t, r.AskOnce(t, "k2", r.Token, http.MethodPost, "/nodes/g2/storage-cleanup", cleanup))
	if again := begun[api.Decommission](t, r.AskOnce(t, "k2", r.Token, http.MethodPost, "/nodes/g2/storage-cleanup", cleanup)); again.DecommissionID != clean.DecommissionID {
		t.Errorf("asked again it is %s, and was %s", again.DecommissionID, clean.DecommissionID)
	}
	many := begun[api.DecommissionBatchStarted](t, r.AskOnce(t, "k3", r.Token, http.MethodPost, "/decommissions/batch", batchOf("g3", "g4")))
	again := begun[api.DecommissionBatchStarted](t, r.AskOnce(t, "k3", r.Token, http.MethodPost, "/decommissions/batch", batchOf("g3", "g4")))
	for _, of := range [][]api.DecommissionBatchRun{many.Decommissions, again.Decommissions} { // begun in the same moment, so in any order
		slices.SortFunc(of, func(x, y api.DecommissionBatchRun) int {
			return strings.Compare(x.DecommissionID, y.DecommissionID)
		})
	}
	if again.BatchID != many.BatchID || !slices.Equal(again.Decommissions, many.Decommissions) {
		t.Errorf("asked again it is %+v, and was %+v", again, many)
	}
	for what, row := range map[string]struct {
		key, path string
		body      any
		code      string
	}{
		"another node":  {"k1", "/nodes/g2/decommission", one, "idempotency_conflict"},
		"another list":  {"k3", "/decommissions/batch", batchOf("g3"), "idempotency_conflict"},
		"another scope": {"k2", "/nodes/g2/storage-cleanup", api.StorageCleanupStart{Scope: "all", Reason: "r"}, "idempotency_conflict"},
		"no key":        {"", "/nodes/g1/decommission", one, "node_in_run"},
	} {
		if a := r.AskOnce(t, row.key, r.Token, http.MethodPost, row.path, row.body); a.Code() != row.code {
			t.Errorf("%s: %d %s, want %s", what, a.Status, a.Body, row.code)
		}
	}
	if all := r.turnovers(""); len(all.Items) != 4 {
		t.Errorf("there are %d runs", len(all.Items))
	}
}
