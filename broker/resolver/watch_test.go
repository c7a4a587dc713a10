package resolver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/resolver-profiles/profilestest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// push stores the shipped set as v1 and assigns the set to the nodes of a selector.
func push(t *testing.T, b *servertest.Broker, selector string) api.ResolverSet {
	t.Helper()
	set, problems := profiles.Parse(profilestest.Shipped()...)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	raw, err := set.Encode()
	if err != nil {
		t.Fatal(err)
	}
	kept := servertest.Must[api.ResolverSet](t, b, http.MethodPost, "/resolver/sets", api.ResolverPush{Version: "v1", Profiles: raw})
	want(t, b, selector)
	return kept
}

func want(t *testing.T, b *servertest.Broker, selector string) {
	t.Helper()
	servertest.Must[api.ResolverWant](t, b, http.MethodPost, "/resolver/wants", api.ResolverWantPut{Selector: selector, Version: "v1", Reason: "test"})
}

// until polls every 200 ms, because the broker limits the rate of requests.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick, late := time.NewTicker(200*time.Millisecond), time.After(20*time.Second)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// wanted returns the only want.
func wanted(t *testing.T, b *servertest.Broker) api.ResolverWant {
	t.Helper()
	all := servertest.Must[api.ResolverWantList](t, b, http.MethodGet, "/resolver/wants", nil)
	if len(all.Items) != 1 {
		t.Fatalf("%d wants", len(all.Items))
	}
	return all.Items[0]
}

// given returns the node.resolver_config tasks of all nodes.
func given(t *testing.T, b *servertest.Broker) []api.Task {
	t.Helper()
	return servertest.Must[api.TaskList](t, b, http.MethodGet, "/tasks?type=node.resolver_config", nil).Items
}

func status(t *testing.T, b *servertest.Broker, n *servertest.Node) string {
	t.Helper()
	return servertest.Must[api.Node](t, b, http.MethodGet, "/nodes/"+n.NodeID, nil).Status
}

// config waits for a node's task with a set.
func config(t *testing.T, n *servertest.Node) (wire.Delivery, *taskcatalog.Task) {
	t.Helper()
	d, task := n.Next(t)
	if task.Type != "node.resolver_config" {
		t.Fatalf("the task is %s, want node.resolver_config", task.Type)
	}
	return d, task
}

// settle receives the node's first two tasks in either order, answers the baseline's task, and
// returns the task with the set.
func settle(t *testing.T, b *servertest.Broker, n *servertest.Node) (d wire.Delivery, task *taskcatalog.Task) {
	t.Helper()
	for range 2 {
		next, k := n.Next(t)
		if k.Type == "node.resolver_config" {
			d, task = next, k
			continue
		}
		baseline := taskcatalog.Baseline{TakenAt: b.Now().UTC()}
		digest, err := baseline.Digest()
		if err != nil {
			t.Fatal(err)
		}
		n.Finish(t, next, k, taskcatalog.OutcomeSucceeded, taskcatalog.ValidateCleanResult{BaselineDigest: digest, Baseline: &baseline}, taskcatalog.Report{})
	}
	if task == nil {
		t.Fatal("no task with a set came")
	}
	return d, task
}

func confirm(t *testing.T, n *servertest.Node, d wire.Delivery, task *taskcatalog.Task, digest string) {
	t.Helper()
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.ResolverConfigResult{Version: "v1", Digest: digest, Changed: true}, taskcatalog.Report{})
}

func TestANodeThatEnrolsBecomesActiveOnlyWithItsSet(t *testing.T) {
	b := servertest.Start(t)
	set := push(t, b, "all")
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"})
	d, task := settle(t, b, n)
	var p taskcatalog.ResolverConfigParams
	if err := json.Unmarshal(task.Params, &p); err != nil || p.Version != "v1" || p.Digest != set.Digest || len(p.Profiles) == 0 {
		t.Fatalf("the task carries %s %s, %d bytes (%v)", p.Version, p.Digest, len(p.Profiles), err)
	}
	if got := status(t, b, n); got != "enrolling" {
		t.Errorf("with its baseline and no set it is %s", got)
	}
	// The digest that the node reports counts, not the success of the task.
	confirm(t, n, d, task, "sha256:"+strings.Repeat("0", 64))
	if got := status(t, b, n); got != "enrolling" {
		t.Errorf("with another set it is %s", got)
	}
	b.Advance(2 * time.Minute)
	until(t, "the deny list is read again", func() bool {
		_, code, err := n.Try(http.MethodPost, "/tasks/none/result")
		return err == nil && code != "deny_list_unknown" && code != "rate_limited"
	})
	d, task = config(t, n)
	confirm(t, n, d, task, set.Digest)
	if got := status(t, b, n); got != "active" {
		t.Errorf("with its baseline and its set it is %s", got)
	}
	if r := servertest.Must[api.NodeResolver](t, b, http.MethodGet, "/nodes/h1/resolver", nil); !r.Confirmed || r.InForce != "v1" {
		t.Errorf("%+v", r)
	}
}

func TestAFailureOnTheFirstNodeKeepsTheSetFromAllOthers(t *testing.T) {
	b := servertest.Start(t)
	nodes := map[string]*servertest.Node{}
	for _, name := range []string{"h1", "h2", "h3"} {
		n := b.NewNode(t, api.NodeCreate{Hostname: name}).Settle(t)
		nodes[n.NodeID] = n
	}
	set := push(t, b, "all")
	until(t, "the first wave", func() bool { return len(given(t, b)) > 0 })
	first := given(t, b)
	if len(first) != 1 {
		t.Fatalf("the first wave is %d nodes", len(first))
	}
	n := nodes[first[0].NodeID]
	d, task := config(t, n)
	n.Finish(t, d, task, taskcatalog.OutcomeFailed, nil, taskcatalog.Report{})
	until(t, "the want stops", func() bool { return !wanted(t, b).StoppedAt.IsZero() })
	w := wanted(t, b)
	if !strings.Contains(w.StopReason, d.TaskID) || !strings.Contains(w.StopReason, n.NodeID) || w.Confirmed != 0 || w.Nodes != 3 {
		t.Errorf("%+v", w)
	}
	if got := given(t, b); len(got) != 1 {
		t.Errorf("%d nodes got a set that the first could not take", len(got))
	}
	// An enrolling node still gets its set.
	other := b.NewNode(t, api.NodeCreate{Hostname: "h4"})
	d, task = settle(t, b, other)
	confirm(t, other, d, task, set.Digest)
	if got := status(t, b, other); got != "active" {
		t.Errorf("a node that enrols meanwhile is %s", got)
	}
	// After the same want is given again, the waves continue.
	want(t, b, "all")
	until(t, "another wave", func() bool { return len(given(t, b)) > 2 })
	if w := wanted(t, b); !w.StoppedAt.IsZero() || w.Confirmed != 1 {
		t.Errorf("%+v", w)
	}
}
