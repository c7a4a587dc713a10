package reconcile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/reconcile"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/test/maassim"
)

// fleet makes n marked machines with active nodes, and sets every rule to act.
func fleet(t testing.TB, n int) (w *world, nodes []broker.Node, systemIDs []string) {
	t.Helper()
	w = onSQLite(t)
	w.acting()
	for range n {
		node, id := w.machine(true, broker.Active)
		nodes, systemIDs = append(nodes, node), append(systemIDs, id)
	}
	w.hear(nodes)
	w.twice()
	return w, nodes, systemIDs
}

func (w *world) hear(nodes []broker.Node) {
	w.t.Helper()
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.ID
	}
	w.heard(ids...)
}

// same checks that every node is unchanged, without drift.
func (w *world) same(nodes []broker.Node) {
	w.t.Helper()
	for _, n := range nodes {
		w.is(n.ID, n.Status, "")
	}
}

func answering(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
	}
}

// lists changes MAAS's answer to a request for its machines.
func (w *world) lists(change func([]json.RawMessage) []json.RawMessage) {
	w.guard = func(req *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(req.URL.Path, "/machines/") || req.URL.RawQuery != "" {
			return nil, nil
		}
		res, err := w.region.RoundTripper().RoundTrip(req)
		if err != nil {
			return nil, err
		}
		var all []json.RawMessage
		if err := json.NewDecoder(res.Body).Decode(&all); err != nil {
			return nil, err
		}
		raw, err := json.Marshal(change(all))
		res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
		return res, err
	}
}

// A bad answer of MAAS changes no node: MAAS away, an error, an empty list, half a list, no list.
func TestAMAASThatCannotBeReadChangesNothing(t *testing.T) {
	for name, guard := range map[string]func(*http.Request) (*http.Response, error){
		"away":         func(*http.Request) (*http.Response, error) { return nil, errAway },
		"500":          answering(http.StatusInternalServerError, "an unforeseen error"),
		"503":          answering(http.StatusServiceUnavailable, "no rack"),
		"401":          answering(http.StatusUnauthorized, "Invalid API key."),
		"404":          answering(http.StatusNotFound, "Not Found"),
		"no machine":   answering(http.StatusOK, "[]"),
		"null":         answering(http.StatusOK, "null"),
		"an object":    answering(http.StatusOK, "{}"),
		"half a JSON":  answering(http.StatusOK, `[{"system_id":"4y3h7n",`),
		"a login page": answering(http.StatusOK, "<html></html>"),
	} {
		for _, many := range []int{2, 6} {
			t.Run(fmt.Sprint(name, " of ", many), func(t *testing.T) {
				w, nodes, _ := fleet(t, many)
				before := w.alerts("node.drift.detected", "")
				w.guard, w.blind = guard, true
				for range 4 {
					w.hear(nodes)
					w.twice()
				}
				w.same(nodes)
				if got := w.alerts("site.reconciliation.stopped", "maas_unread"); got != 1 {
					t.Errorf("%d alerts, want 1", got)
				}
				if got := w.alerts("node.drift.detected", ""); got != before {
					t.Errorf("%d drifts", got)
				}
				w.guard, w.blind = nil, false
				w.hear(nodes)
				w.twice()
				w.same(nodes)
				if got := w.alerts("site.reconciliation.resumed", "maas_unread"); got != 1 {
					t.Errorf("%d times told that it is over, want 1", got)
				}
			})
		}
	}
}

func TestOneFailedLookAlertsNobody(t *testing.T) {
	w, nodes, _ := fleet(t, 3)
	w.guard, w.blind = func(*http.Request) (*http.Response, error) { return nil, errAway }, true
	w.clock.Advance(2 * time.Second)
	w.look()
	w.guard, w.blind = nil, false
	w.hear(nodes)
	w.twice()
	if got := w.alerts("site.reconciliation.stopped", ""); got != 0 {
		t.Errorf("%d alerts", got)
	}
}

func TestHalfAListChangesNothing(t *testing.T) {
	half := func(all []json.RawMessage) []json.RawMessage { return all[:len(all)/2] }
	for _, many := range []int{4, 20} { // fewer than stop the site, and more
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			w, nodes, _ := fleet(t, many)
			w.lists(half)
			for range 3 {
				w.hear(nodes)
				w.twice()
			}
			w.same(nodes)
			reads := 0
			for _, c := range w.region.Calls() {
				if c.Op == "read" {
					reads++
				}
			}
			if many == 20 && (reads > 0 || w.alerts("site.reconciliation.stopped", "too_many_quarantine") != 1) {
				t.Errorf("%d machines were looked at alone, %d alerts", reads, w.alerts("site.reconciliation.stopped", ""))
			}
		})
	}
}

// A machine that MAAS lists in an unreadable form is not absent.
func TestAMachineThatCannotBeReadIsNotAbsent(t *testing.T) {
	w, nodes, ids := fleet(t, 3)
	for name, form := range map[string]string{"with its id": `{"system_id":%q,"status":"odd"}`, "without": `{"status":[%q]}`} {
		t.Run(name, func(t *testing.T) {
			w.lists(func(all []json.RawMessage) []json.RawMessage {
				for i := range all {
					if bytes.Contains(all[i], []byte(`"`+ids[0]+`"`)) {
						all[i] = json.RawMessage(fmt.Sprintf(form, ids[0]))
					}
				}
				return all
			})
			for range 3 {
				w.hear(nodes)
				w.twice()
			}
			w.same(nodes)
		})
	}
}

// Only a 404 of the machine itself proves that the machine is absent.
func TestAbsenceIsProvenByTheMachineAlone(t *testing.T) {
	for name, row := range map[string]struct {
		alone func(*http.Request) (*http.Response, error)
		want  broker.NodeStatus
	}{
		"404":  {answering(http.StatusNotFound, "Not Found"), broker.Quarantined},
		"500":  {answering(http.StatusInternalServerError, "odd"), broker.Active},
		"403":  {answering(http.StatusForbidden, "no"), broker.Active},
		"away": {func(*http.Request) (*http.Response, error) { return nil, errAway }, broker.Active},
	} {
		t.Run(name, func(t *testing.T) {
			w, nodes, ids := fleet(t, 3)
			w.lists(func(all []json.RawMessage) []json.RawMessage { return all[1:] })
			list := w.guard
			w.guard = func(req *http.Request) (*http.Response, error) {
				if strings.HasSuffix(req.URL.Path, "/machines/"+ids[0]+"/") {
					return row.alone(req)
				}
				return list(req)
			}
			for range 2 {
				w.hear(nodes)
				w.twice()
			}
			if got := w.now(nodes[0].ID).Status; got != row.want {
				t.Errorf("the node is %s, want %s", got, row.want)
			}
			w.same(nodes[1:])
		})
	}
}

func TestAMassChangeStopsWithOneAlert(t *testing.T) {
	w, nodes, ids := fleet(t, 20)
	for _, id := range ids[:6] {
		w.ok(w.region.ByHand(maassim.ReadyByHand, id))
	}
	for range 5 {
		w.hear(nodes)
		w.twice()
	}
	w.same(nodes)
	if got := w.alerts("site.reconciliation.stopped", "too_many_quarantine"); got != 1 {
		t.Errorf("%d alerts, want 1", got)
	}
	looks, err := w.db.ReconcileLooks(t.Context(), nil)
	w.ok(err)
	if len(looks[0].Stops) != 1 || !strings.Contains(looks[0].Stops[0].Text, "6 of 20") {
		t.Errorf("%+v", looks[0].Stops)
	}
	// An operator who intends the change raises the limit.
	w.policy(func(p *reconcile.Policy) { p.MaxSharePercent = 50 })
	w.hear(nodes)
	w.twice()
	for _, n := range nodes[:6] {
		w.is(n.ID, broker.Quarantined, "released")
	}
	w.same(nodes[6:])
	if got := w.alerts("site.reconciliation.resumed", "too_many_quarantine"); got != 1 {
		t.Errorf("%d times told that it is over, want 1", got)
	}
}

// A fleet that changes a few nodes at a time is a mass change too.
func TestAMassChangeInSmallStepsStops(t *testing.T) {
	w, nodes, ids := fleet(t, 20)
	for i, id := range ids[:10] {
		w.ok(w.region.ByHand(maassim.ReadyByHand, id))
		w.hear(nodes)
		w.twice()
		if i == 3 {
			for _, n := range nodes[:4] {
				w.is(n.ID, broker.Quarantined, "released")
			}
		}
	}
	gone := 0
	for _, n := range nodes {
		if w.now(n.ID).Status == broker.Quarantined {
			gone++
		}
	}
	if gone != 4 {
		t.Errorf("%d nodes were quarantined within minutes, want 4", gone)
	}
	if got := w.alerts("site.reconciliation.stopped", "too_many_quarantine"); got != 1 {
		t.Errorf("%d alerts, want 1", got)
	}
}

// Nodes that a person handles meanwhile count as well: as many have changed within the hour.
func TestAMassChangeThatPeopleSeeToOnTheWayStops(t *testing.T) {
	for name, seeTo := range map[string]func(*world, string){
		"resolved": func(w *world, id string) {
			_, err := w.db.ResolveDrift(w.t.Context(), ada, id, "seen to")
			w.ok(err)
		},
		"retired": func(w *world, id string) { // once the node is out of use, MAAS's report is another drift
			w.move(id, broker.Draining, broker.OwnerOperator)
			w.move(id, broker.Retired, broker.OwnerDrain)
			w.twice()
			w.is(id, broker.Retired, "retired_taken")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, nodes, ids := fleet(t, 20)
			gone := 0
			for i, id := range ids[:10] {
				w.ok(w.region.ByHand(maassim.ReadyByHand, id))
				w.hear(nodes)
				w.twice()
				if n := nodes[i]; w.now(n.ID).Status == broker.Quarantined {
					gone++
					seeTo(w, n.ID)
				}
			}
			if gone != 4 {
				t.Errorf("%d nodes were quarantined within minutes, want 4", gone)
			}
		})
	}
}

// A machine that only passes through a status is not judged by it.
func TestAMachineInTransitionIsPassedOver(t *testing.T) {
	w, nodes, ids := fleet(t, 2)
	for range 5 {
		w.admin(ids[0], "test", nil)
		w.clock.Advance(2 * time.Second)
		w.look()
		if m, _ := w.region.Machine(ids[0]); m.Status != maassim.Testing {
			t.Fatalf("it is %s", m.Status)
		}
		w.clock.Advance(2 * time.Minute)
		w.hear(nodes)
		w.look()
	}
	w.same(nodes)
	if got := w.alerts("node.drift.detected", ""); got != 0 {
		t.Errorf("%d drifts", got)
	}
}

// Two observations count only if they are far enough apart, and agree.
func TestTwoLooksAtOnceAreOneObservation(t *testing.T) {
	w, nodes, ids := fleet(t, 2)
	w.ok(w.region.ByHand(maassim.ReadyByHand, ids[0]))
	for range 10 {
		w.clock.Advance(2 * time.Second)
		w.look()
	}
	w.same(nodes)
	w.clock.Advance(20 * time.Second)
	w.look()
	w.is(nodes[0].ID, broker.Quarantined, "released")
}

// A broker that begins to lead has observed nothing yet.
func TestAnotherLeaderBeginsAnew(t *testing.T) {
	w, nodes, ids := fleet(t, 2)
	w.ok(w.region.ByHand(maassim.ReadyByHand, ids[0]))
	w.clock.Advance(2 * time.Second)
	w.look()
	w.boot()
	w.clock.Advance(time.Minute)
	w.look()
	w.same(nodes)
	w.clock.Advance(time.Minute)
	w.look()
	w.is(nodes[0].ID, broker.Quarantined, "released")
}

// The node's status changes between two observations: the first does not count.
func TestANodeThatHasMovedIsLookedAtAnew(t *testing.T) {
	w, nodes, ids := fleet(t, 2)
	w.ok(w.region.ByHand(maassim.ReadyByHand, ids[0]))
	w.clock.Advance(2 * time.Second)
	w.look()
	w.move(nodes[0].ID, broker.Offline, broker.OwnerHeartbeat)
	w.clock.Advance(31 * time.Second)
	w.look()
	w.is(nodes[0].ID, broker.Offline, "")
	w.clock.Advance(31 * time.Second)
	w.look()
	w.is(nodes[0].ID, broker.Quarantined, "released")
}

// In the acting transaction the node is still as it was judged.
func TestWhatMovedMeanwhileIsNotActedOn(t *testing.T) {
	w, nodes, ids := fleet(t, 1)
	d := store.Drift{Node: nodes[0], Seen: store.MAASState{SystemID: ids[0]}, Rule: "released", Text: "test", Severity: "critical", FirstSeen: w.clock.Now(), Quarantine: true}
	for name, spoil := range map[string]func(*store.Drift){
		"status": func(d *store.Drift) { d.Node.Status = broker.Offline },
		"epoch":  func(d *store.Drift) { d.Node.Epoch++ },
		"bound":  func(d *store.Drift) { d.Node.MAASSystemID = "zzzzzz" },
	} {
		other := d
		spoil(&other)
		if recorded, err := w.db.RecordDrift(t.Context(), broker.Actor{Name: "system"}, other); recorded || err != nil {
			t.Errorf("%s: recorded %v, %v", name, recorded, err)
		}
	}
	end := w.run(nodes[0].ID, "")
	if recorded, err := w.db.RecordDrift(t.Context(), broker.Actor{Name: "system"}, d); recorded || err != nil {
		t.Errorf("with a run: recorded %v, %v", recorded, err)
	}
	end()
	_, _, _, err := w.db.Freeze(t.Context(), ada, "dc1", "test")
	w.ok(err)
	if recorded, err := w.db.RecordDrift(t.Context(), broker.Actor{Name: "system"}, d); recorded || err != nil {
		t.Errorf("frozen: recorded %v, %v", recorded, err)
	}
	w.same(nodes)
}
