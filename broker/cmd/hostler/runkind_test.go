package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store"
)

// inventionKind is a kind of run that only this file knows. A kind needs its row, its chain, and
// nothing else.
const inventionKind = "node.invention"

func init() {
	broker.RunKinds = append(broker.RunKinds, broker.RunKind{Name: inventionKind, Noun: "run"})
}

type invention struct {
	NodeID string `json:"node_id"`
}

// inventions is the chain of the kind: its stage fails until something is mended.
func inventions(mended <-chan struct{}) chain.Chain[invention] {
	return chain.Chain[invention]{Kind: inventionKind, Stages: []chain.Stage[invention]{
		{Name: "draw_plan", Do: func(context.Context, *chain.Run[invention]) error { return nil }},
		{Name: "build", Do: func(context.Context, *chain.Run[invention]) error {
			select {
			case <-mended:
				return nil
			default:
				return chain.Fail(chain.Class(broker.InputConfigError), "a wheel is missing").With("wheel_missing", nil)
			}
		}},
	}}
}

// TestAnInventedKindIsSeenEverywhere holds the promise of broker.RunKinds: a new kind is one row
// and its chain.
func TestAnInventedKindIsSeenEverywhere(t *testing.T) {
	mended := make(chan struct{})
	b := servertest.Start(t, func(c *server.Config) { c.Kinds = append(c.Kinds, inventions(mended)) })
	s := &realSite{t, b, b.NewNode(t, api.NodeCreate{Hostname: "gpu-07", Site: "dc1"}).Settle(t)}
	db, err := store.Open(t.Context(), store.Options{URL: server.StoreURL(b.Dir, ""), Now: b.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	starter, err := chain.New(db, chain.Classes{}, chain.Options{}, inventions(mended))
	if err != nil {
		t.Fatal(err)
	}
	begin := func() string {
		t.Helper()
		r, err := starter.Start(t.Context(), chain.Start{
			Kind: inventionKind, Site: "dc1", Subject: "gpu-07", State: invention{s.node.NodeID}, Locks: []string{"node/" + s.node.NodeID}, RequestedBy: "ada", Role: "operator",
		})
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	show := func(id string) api.RunDetail {
		return servertest.Must[api.RunDetail](t, b, http.MethodGet, "/runs/"+id, nil)
	}
	metrics := func() string {
		return string(b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/metrics", nil).Body)
	}

	watch := func(id, want string) {
		t.Helper()
		if out, err := s.command("run", "watch", id).CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("hostler run watch: %v, and says\n%s", err, out)
		}
	}
	id := begin()
	watch(id, "wheel_missing")
	d := show(id)
	if d.Kind != inventionKind || d.NodeID != s.node.NodeID || d.Site != "dc1" || d.ErrorCode != "wheel_missing" || d.CurrentStage != "build" {
		t.Errorf("the API shows %+v", d.Run)
	}
	if len(d.Stages) != 2 || d.Stages[0].Status != "succeeded" || d.Stages[1].Status != "failed" || len(d.Events) == 0 {
		t.Errorf("its stages are %+v, its events %+v", d.Stages, d.Events)
	}
	for _, query := range []string{"", "?kind=" + inventionKind, "?node_id=gpu-07&status=failed", "?site=dc1&stage=build&class=input_config_error"} {
		l := servertest.Must[api.RunList](t, b, http.MethodGet, "/runs"+query, nil)
		if len(l.Items) != 1 || l.Items[0].RunID != id {
			t.Errorf("/runs%s lists %+v", query, l.Items)
		}
	}
	if l := servertest.Must[api.RunList](t, b, http.MethodGet, "/runs?kind=agent.rollout", nil); len(l.Items) != 0 {
		t.Errorf("among rollouts: %+v", l.Items)
	}
	if want := `hostler_runs{class="input_config_error",kind="node.invention",status="failed_retryable"} 1`; !strings.Contains(metrics(), want) {
		t.Errorf("the metrics lack %s", want)
	}

	if got := s.says("run", "list", "--kind", inventionKind); !strings.Contains(got, id) || !strings.Contains(got, "input_config_error") {
		t.Errorf("hostler run list says\n%s", got)
	}
	if got := s.says("run", "show", id, "--events"); !strings.Contains(got, "a wheel is missing") || !strings.Contains(got, "draw_plan") || !strings.Contains(got, "hostler run\n") {
		t.Errorf("hostler run show says\n%s", got)
	}
	close(mended)
	if got := s.says("run", "retry", id, "--wait"); !strings.Contains(got, "completed") {
		t.Errorf("hostler run retry says\n%s", got)
	}
	if got := s.says("node", "timeline", "gpu-07"); !strings.Contains(got, inventionKind) || !strings.Contains(got, "draw_plan") {
		t.Errorf("hostler node timeline says\n%s", got)
	}
	moments := servertest.Must[api.Timeline](t, b, http.MethodGet, "/nodes/gpu-07/timeline", nil).Items
	if !slices.ContainsFunc(moments, func(e api.TimelineEvent) bool { return e.Kind == "run" && e.What == inventionKind && e.RunID == id }) {
		t.Errorf("the timeline is %+v", moments)
	}
	if got := s.says("events", "--type", inventionKind+".completed"); !strings.Contains(got, inventionKind+".completed") {
		t.Errorf("hostler events says %q", got)
	}

	servertest.Must[api.FreezeResult](t, b, http.MethodPost, "/freeze", api.FreezePut{Site: "dc1", Reason: "so that the next run has not begun"})
	id = begin()
	if a := b.Ask(t, b.Token, http.MethodPost, "/runs/"+id+"/cancel", api.RunOrder{}); a.Code() != "reason_missing" {
		t.Errorf("a cancel without a reason: %d %s", a.Status, a.Body)
	}
	servertest.Must[api.Run](t, b, http.MethodPost, "/runs/"+id+"/cancel", api.RunOrder{Reason: "another idea"})
	servertest.Must[api.FreezeResult](t, b, http.MethodPost, "/unfreeze", api.UnfreezePut{FreezePut: api.FreezePut{Site: "dc1", Reason: "enough"}})
	watch(id, "run_cancelled")
}
