package adminapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store/storetest"
)

// transition is a change of a node's status and the owner of the change.
type transition struct {
	from, to broker.NodeStatus
	by       broker.Owner
}

func (s transition) String() string { return fmt.Sprintf("%s to %s by %s", s.from, s.to, s.by) }

// steps reads lines of from, to and owner.
func steps(lines string) (out []transition) {
	for line := range strings.Lines(lines) {
		if f := strings.Fields(line); len(f) == 3 {
			out = append(out, transition{broker.NodeStatus(f[0]), broker.NodeStatus(f[1]), broker.Owner(f[2])})
		}
	}
	return out
}

// The walks cover every pair of the table, and no other pair.
func TestTheWalksAreThoseOfTheTable(t *testing.T) {
	var walked, table []transition
	for _, w := range walks {
		walked = append(walked, steps(w.makes)...)
	}
	for _, from := range broker.NodeStatuses {
		for _, to := range broker.NodeStatuses {
			for _, by := range broker.Owners {
				if broker.Transition(broker.Node{ID: "n-1", Status: from}, to, by) == nil {
					table = append(table, transition{from, to, by})
				}
			}
		}
	}
	for _, s := range table {
		if !slices.Contains(walked, s) {
			t.Errorf("no walk takes a node from %s: walk it through the code of its owner, or take it from the table", s)
		}
	}
	for _, s := range walked {
		if !slices.Contains(table, s) {
			t.Errorf("a walk is to take a node from %s, which the table does not allow", s)
		}
	}
}

// Each walk leads a node through a whole broker, by the actions of operators, agents, MAAS and
// time. The records show exactly the walk: status, owner and event, in order.
func TestEveryTransitionIsMadeByItsOwner(t *testing.T) {
	for _, engine := range storetest.Engines {
		for _, w := range walks {
			if w.long && engine != "sqlite" {
				continue
			}
			t.Run(engine+"/"+w.name, func(t *testing.T) {
				t.Parallel()
				b, node := w.leads(t, over(t, engine)...)
				recorded(t, b, node, steps(w.makes))
			})
		}
	}
}

// over makes a broker use a database of its own; with PostgreSQL the broker gets its keys
// beforehand.
func over(t *testing.T, engine string) []func(*server.Config) {
	t.Helper()
	if engine != "postgres" {
		return nil
	}
	url, path := storetest.PostgresURL(t), filepath.Join(t.TempDir(), "broker")
	dir, err := server.OpenDataDir(path)
	if err == nil {
		err = errors.Join(dir.MakeKeys(servertest.Clock(), ""), dir.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return []func(*server.Config){func(c *server.Config) { c.DataDir, c.Database, c.StoreNow = path, url, c.Now }}
}

// recorded compares the audit log and the events of a node with the expected changes. A heard agent
// may have brought the node back since.
func recorded(t *testing.T, b *servertest.Broker, node string, want []transition) {
	t.Helper()
	type side struct {
		Status broker.NodeStatus `json:"status"`
		Owner  broker.Owner      `json:"owner"`
	}
	var got []transition
	rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?limit=1000&node="+node, nil).Items
	for _, row := range slices.Backward(rows) {
		var before, after side
		if row.Code != "" || len(row.Before) == 0 || len(row.After) == 0 {
			continue // a refusal, or no change
		}
		if json.Unmarshal(row.Before, &before) != nil || json.Unmarshal(row.After, &after) != nil || before.Status == after.Status || after.Owner == "" {
			continue
		}
		got = append(got, transition{before.Status, after.Status, after.Owner})
		if row.Actor == "" || row.At.IsZero() {
			t.Errorf("nobody is recorded for %s: %+v", got[len(got)-1], row)
		}
	}
	if len(got) > len(want) && got[len(want)].by == broker.OwnerHeartbeat {
		got = got[:len(want)]
	}
	if !slices.Equal(got, want) {
		t.Errorf("the audit log has\n%v, want\n%v", got, want)
	}
	told := func() (out []transition) {
		for _, e := range all(t, b.Events(t, b.Token, "?after=0&follow=false&type=node.status.changed&subject=node/"+node)) {
			var d struct{ From, To broker.NodeStatus }
			if err := json.Unmarshal(e.Data, &d); err != nil {
				t.Fatal(err)
			}
			if d.From != "" {
				out = append(out, transition{from: d.From, to: d.To})
			}
		}
		return out
	}
	if !b.LetPass(func() (bool, time.Duration) { return len(told()) >= len(want), 0 }) {
		t.Fatalf("the events are %v, want %v", told(), want)
	}
	for i, s := range told()[:len(want)] {
		if s.from != want[i].from || s.to != want[i].to {
			t.Errorf("event %d tells of %s to %s, want %s", i, s.from, s.to, want[i])
		}
	}
}
