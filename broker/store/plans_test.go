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

// Tasks, runs and what they write stay for more than a year. What is asked every few
// seconds, at each scrape or at each step of a run must cost the same then: where it goes
// through all of such a table, that is through an index of the few that are meant.
func TestWhatIsAskedOftenDoesNotReadAllThatEverWas(t *testing.T) {
	url := storetest.URL(t, "sqlite")
	db := storetest.Reopen(t, url, nil)
	now := time.Now()
	n := newMember(t, db, "one")
	must(db.SweepTasks(ctx))(t)
	must(db.CountOpenTasks(ctx, nil))(t)
	must(db.CountOpenTasks(ctx, []string{"dc1"}))(t)
	must(db.OpenTasksByKey(ctx))(t)
	must(db.Gauges(ctx))(t)
	must(db.StoppedRuns(ctx, nil, 10))(t)
	must(db.StoppedRuns(ctx, []string{"dc1"}, 10))(t)
	must(db.LiveTerminals(ctx))(t)
	must(db.NextDue(ctx))(t)
	must(db.Claim(ctx, chain.Claim{Owner: "o", Kinds: []string{"k"}, Lists: []string{"l"}}))(t)
	must(db.Runs(ctx, chain.Filter{Batch: "b"}))(t)
	must(db.StageTimes(ctx, "k", nil, now.Add(-time.Hour), now))(t)
	must(db.PlaceEvents(ctx, 10))(t)
	must(db.ForgetEvents(ctx, now.Add(-time.Hour), 10, 10))(t)
	must(db.FindNode(ctx, "one", nil))(t)
	must(db.OnboardNode(ctx, admin, store.NewNode{ID: "n-made", Hostname: "made", Site: "dc1", MadeByRun: "r-1", MAASSystemID: "abc"}))(t)
	for _, f := range []store.OutboxFilter{{}, {Types: []string{"a"}}, {Subject: "s"}, {Sites: []string{"dc1"}}} {
		if _, _, err := db.Outbox(ctx, f); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := db.ListTasks(ctx, store.TaskFilter{Sites: []string{"dc1"}, Statuses: []broker.TaskStatus{broker.TaskQueued}}); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := db.Timeline(ctx, n.ID, store.Window{Limit: 10}); err != nil {
		t.Fatal(err)
	}

	raw := must(sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:")))(t)
	defer func() { _ = raw.Close() }()
	grows := regexp.MustCompile(`^SCAN (tasks|chain_runs|r|chain_events|e|o|outbox|audit_logs|certificates|turnover_outages|terminal_sessions|s)\b(?: USING (?:COVERING )?INDEX (\w+))?`)
	few := []string{"tasks_open", "chain_runs_open", "chain_runs_due", "chain_runs_held", "outbox_waiting", "audit_logs_unsealed", "certificates_denied", "terminal_sessions_live"}
	placeholder := regexp.MustCompile(`\$\d+`)
	asked := 0
	for _, text := range store.Texts(db) {
		if !regexp.MustCompile(`^\s*(SELECT|UPDATE|DELETE|WITH)`).MatchString(text) {
			continue
		}
		asked++
		placeholders := slices.Compact(slices.Sorted(slices.Values(placeholder.FindAllString(text, -1))))
		plan := planOf(t, raw, text, make([]any, len(placeholders))...)
		if strings.Contains(plan, "SCAN nodes") && regexp.MustCompile(`made_by_run = |hostname = `).MatchString(text) {
			t.Errorf("all nodes are read for one: %s", text)
		}
		for line := range strings.Lines(plan) {
			if m := grows.FindStringSubmatch(line); m != nil && !slices.Contains(few, m[2]) {
				t.Errorf("%s\n\t%s", strings.TrimSpace(line), text)
			}
		}
	}
	if asked < 30 {
		t.Errorf("only %d statements were looked at", asked)
	}
}
