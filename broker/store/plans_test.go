package store_test

import (
	"database/sql"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// Tasks, runs and their rows stay for more than a year. A query that runs every few seconds, at
// each scrape or at each stage of a run must not become slower meanwhile: a scan of such a table
// must use an index of the few relevant rows.
func TestWhatIsAskedOftenDoesNotReadAllThatEverWas(t *testing.T) {
	url := storetest.URL(t, "sqlite")
	db := storetest.Reopen(t, url, nil)
	texts := store.Texts(db)
	now := time.Now()
	n := newMember(t, db, "one")
	must(db.SweepTasks(ctx))(t)
	must(db.CountOpenTasks(ctx, nil))(t)
	must(db.CountOpenTasks(ctx, []string{"dc1"}))(t)
	must(db.OpenTasksByKey(ctx))(t)
	must(db.Gauges(ctx))(t)
	must(db.LiveOperations(ctx))(t)
	must(db.HeldBack(ctx, []string{"dc1"}))(t)
	must(db.StoppedRuns(ctx, nil, 10))(t)
	must(db.StoppedRuns(ctx, []string{"dc1"}, 10))(t)
	must(db.LiveTerminals(ctx))(t)
	must(db.PersonDenied(ctx, "oidc:7", broker.Place{OrganisationID: "org-1", ProjectID: "prj-1"}))(t)
	must(db.Terminals(ctx, store.TerminalFilter{ProjectID: "p-1", Limit: 10}))(t)
	must(db.Terminals(ctx, store.TerminalFilter{ProjectID: "p-1", After: "ts-1", Limit: 10}))(t)
	refused(t, second(db.ProjectTerminal(ctx, "p-1", "ts-1")), "terminal_session_not_found")
	must(db.NextDue(ctx))(t)
	must(db.Claim(ctx, chain.Claim{Owner: "o", Kinds: []string{"k"}, Lists: []string{"l"}}))(t)
	must(db.Runs(ctx, chain.Filter{Batch: "b"}))(t)
	must(db.Runs(ctx, chain.Filter{Statuses: []chain.Status{chain.Running}}))(t)
	must(db.StageTimes(ctx, "k", nil, now.Add(-time.Hour), now))(t)
	must(db.StageTimes(ctx, "k", []string{"dc1"}, now.Add(-time.Hour), now))(t)
	must(db.Unheard(ctx, broker.Task{}, 10))(t)
	must(db.NodesInUse(ctx))(t)
	must(db.LeftNodes(ctx))(t)
	must(db.ExpiredNodes(ctx))(t)
	must(db.EndingNodes(ctx, 30))(t)
	must(db.OpenRuns(ctx, "dc1", "auto-"))(t)
	must(db.TurnoverPlaces(ctx, "dc1", "turnovers/dc1/", []string{"auto-", "release-"}, &broker.Allocation{ID: "a-1"}))(t)
	must(db.WaitingReleases(ctx, []string{"dc1"}))(t)
	must(db.Unprovisionable(ctx, []string{"dc1"}))(t)
	must(db.SweepAvailability(ctx))(t)
	must(db.RenewAvailability(ctx, []string{n.ID}))(t)
	must(db.AllocationsWithoutRun(ctx, 10))(t)
	must(db.AllocationsPastEnd(ctx, 10))(t)
	must(db.AllocationsKeptByEnd(ctx, "", 10))(t)
	must(db.UnendedOperation(ctx, n.ID))(t)
	must(db.OperationsOn(ctx, []string{n.ID, "n-2"}))(t)
	must(db.PassedReleases(ctx, []string{"a-1", "a-2"}))(t)
	must(db.DueMaintenances(ctx, 10))(t)
	must(db.ReplacementsDue(ctx, nil, 10))(t)
	mustPage(db.Repairs(ctx, store.RepairFilter{Serial: "s-1"}))(t)
	must(db.HostLinks(ctx, "n-1"))(t)
	must(db.LeavingMaintenances(ctx, 10))(t)
	must(db.OverdueMaintenances(ctx, []string{"dc1"}))(t)
	must(db.CountMaintenances(ctx))(t)
	mustPage(db.Maintenances(ctx, store.MaintenanceFilter{Sites: []string{"dc1"}}))(t)
	mustPage(db.Maintenances(ctx, store.MaintenanceFilter{NodeID: "n-1", Ended: true}))(t)
	must(db.EffectiveOperationPolicy(ctx, broker.Place{OrganisationID: "org-1", ProjectID: "prj-1"}, "model.artifact.stage"))(t)
	must(db.ArtifactSignerTrusts(ctx))(t)
	must(db.DueWebhooks(ctx))(t)
	_, _, err := db.UnlikeOperationDefinitions(ctx, []broker.OperationDefinition{{Operation: "model.stage", Version: "v1"}, {Operation: "gpu.check", Version: "v1"}})
	ok(t, err)
	ok(t, db.CatchUpWebhooks(ctx))
	for _, project := range []string{"", "p-1"} {
		_, _, err := db.InForce(ctx, project, "")
		ok(t, err)
	}
	for _, project := range []string{"", "p-1"} {
		for _, after := range []string{"", "a-1"} {
			f := store.UsageFilter{ProjectID: project, Sites: []string{"dc1"}, From: now.Add(-time.Hour), To: now, After: after}
			mustPage(db.Usage(ctx, f))(t)
			must(db.UsageTotals(ctx, f))(t)
		}
	}
	for _, f := range []store.OperationFilter{
		{ProjectID: "p-1"},
		{ProjectID: "p-1", After: "op-1"},
		{After: "op-1"},
		{ProjectID: "p-1", AllocationID: "alc-1"},
		{ProjectID: "p-1", Operation: "demo.look", From: now, To: now},
		{Statuses: []broker.OperationStatus{broker.OperationFailed}, From: now, To: now},
	} {
		mustPage(db.Operations(ctx, f))(t)
	}
	refused(t, second(db.ProjectOperation(ctx, "p-1", "op-1")), "operation_not_found")
	must(db.OperationSteps(ctx, "op-1", "driver", store.StepPlace{Task: 1}, 10))(t)
	must(db.DenyList(ctx, now))(t)
	ok(t, db.PlaceHold(ctx, chain.Actor{Name: "system"}, chain.SiteHold{Site: "dc1", Kind: chain.Unreachable}))
	ok(t, db.LiftHold(ctx, chain.Actor{Name: "system"}, "dc1", chain.Unreachable, ""))
	must(db.PlaceEvents(ctx, 10))(t)
	ok(t, db.AdvanceRelay(ctx, "nats/EVENTS", 3))
	ok(t, db.TroubleRelay(ctx, "nats/EVENTS", "nats_unreachable", "away"))
	ok(t, db.SkipRelay(ctx, "nats/EVENTS", 4))
	must(db.RelayLag(ctx, "nats/EVENTS"))(t)
	must(db.ForgetEvents(ctx, now.Add(-time.Hour), 10, 10, "nats/EVENTS"))(t)
	must(db.FindNode(ctx, "one", nil))(t)
	must(db.OnboardNode(ctx, admin, store.NewNode{ID: "n-made", Hostname: "made", Site: "dc1", MadeByRun: "r-1", MAASSystemID: "abc"}))(t)
	must(db.BoundNode(ctx, "dc1", "abc", "r-2"))(t)
	must(db.BoundBeside(ctx, "dc1", "abc", "n-2"))(t)
	for _, f := range []store.OutboxFilter{{}, {Types: []string{"a"}}, {Subject: "s"}, {Sites: []string{"dc1"}}, {ProjectID: "p-1"}} {
		if _, _, err := db.Outbox(ctx, f); err != nil {
			t.Fatal(err)
		}
	}
	queued := []broker.TaskStatus{broker.TaskQueued}
	for _, f := range []store.TaskFilter{{Statuses: queued}, {Sites: []string{"dc1"}, Statuses: queued}, {CorrelationID: "c"}} {
		if _, _, err := db.ListTasks(ctx, f); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := db.ClaimTasks(ctx, n.ID, n.Epoch, nil, 1); err != nil {
		t.Fatal(err)
	}

	raw := must(sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:")))(t)
	defer func() { _ = raw.Close() }()
	scan := regexp.MustCompile(`^(?:SCAN (?:\d+ )?(\w+)|SEARCH (\w+))(?: USING (?:COVERING )?INDEX (\w+)(?: \((.*)\))?)?`)
	small := []string{"CONSTANT", "nodes", "maas_sites", "restores", "b", "w", "p", "gone", "u", "webhooks", "due", "artifact_signers"} // artifact_signers: 64 at most; webhooks, due: five of a project; b: batches; p: nodes that could not be provisioned lately; w: resolver_wants, or placed events; gone: nodes with uncertified occupants; u: the usage of a period
	few := []string{
		"tasks_open", "chain_runs_open", "chain_runs_due", "chain_runs_held", "chain_holds_now", "outbox_waiting", "audit_logs_unsealed", "audit_logs_waiting", "certificates_denied", "terminal_sessions_live",
		"allocations_live", "allocations_uncertified", "node_devices_wrong", "allocation_claims_live",
		"tenant_allocations_moving", "tenant_allocations_ending", "tenant_allocations_live", "operations_live",
		"maintenances_open", "maintenances_live", "repairs_opened", "repairs_old", "repairs_new",
	}
	many := []string{"tasks_node (node_id=?)", "chain_runs_list (site=?)", // all rows that a node or a site ever had
		"usage_spans_project (project_id=?)", "usage_spans_project (project_id=? AND from_at<?)", "usage_spans_from (from_at<?)"}
	placeholder := regexp.MustCompile(`\$\d+`)
	asked := 0
	for _, text := range texts() {
		if !regexp.MustCompile(`^\s*(SELECT|UPDATE|DELETE|WITH)`).MatchString(text) {
			continue
		}
		asked++
		placeholders := slices.Compact(slices.Sorted(slices.Values(placeholder.FindAllString(text, -1))))
		plan := planOf(t, raw, text, make([]any, len(placeholders))...)
		if (strings.Contains(plan, "SCAN nodes") || strings.Contains(plan, "nodes_hostname (site=?)")) && regexp.MustCompile(`made_by_run = |hostname = |maas_system_id = `).MatchString(text) {
			t.Errorf("all nodes are read for one: %s", text)
		}
		for line := range strings.Lines(plan) {
			m := scan.FindStringSubmatch(line)
			switch {
			case m == nil:
			case m[1] != "" && !slices.Contains(small, m[1]) && !slices.Contains(few, m[3]), slices.Contains(many, m[3]+" ("+m[4]+")"):
				t.Errorf("%s\n\t%s", strings.TrimSpace(line), text)
			}
		}
	}
	if asked < 30 {
		t.Errorf("only %d statements were looked at", asked)
	}
}
