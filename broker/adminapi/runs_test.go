package adminapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store"
)

// A list of one kind reads only runs of that kind: a page that ends with the last of them names no
// further page, although runs of other kinds follow.
func TestAListOfRunsReadsOnlyItsKind(t *testing.T) {
	b := servertest.Start(t)
	db, err := store.Open(t.Context(), store.Options{URL: server.StoreURL(b.Dir, ""), Now: b.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for i, kind := range []string{"node.onboarding", "node.decommission/soft_reset", "node.decommission/reimage", "node.former", "agent.rollout"} {
		r := chain.Record{ID: fmt.Sprint("r-", i), Kind: kind, Site: "dc1", Status: chain.Completed, Stage: "s", Direction: chain.Forward, Attempt: 1, State: []byte(`{}`), DueAt: b.Now()}
		if err := db.Insert(t.Context(), []chain.NewRun{{Record: r}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string][]string{
		"?kind=node.onboarding&limit=1":                {"r-0"},
		"?kind=node.decommission&limit=2":              {"r-1", "r-2"},
		"?kind=node.decommission%2Fsoft_reset&limit=1": {"r-1"},
		"?kind=node.former&limit=1":                    {"r-3"},
		"?kind=agent.rollout&limit=1":                  {"r-4"},
		"?kind=node":                                   nil,
		"?kind=node.decommission&limit=2&status=live":  nil,
		"?limit=5": {"r-0", "r-1", "r-2", "r-3", "r-4"},
	} {
		l := servertest.Must[api.RunList](t, b, http.MethodGet, "/runs"+query, nil)
		var got []string
		for _, r := range l.Items {
			got = append(got, r.RunID)
		}
		if !slices.Equal(got, want) || l.Next != "" {
			t.Errorf("/runs%s lists %v and goes on after %q, want %v", query, got, l.Next, want)
		}
	}
}
