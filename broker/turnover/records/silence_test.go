package records

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/taskcatalog"
)

// mute is a broker whose nodes never answer, or fail their tasks.
type mute struct {
	*Nodes
	fails taskcatalog.Code // empty: silence
}

func (m *mute) Request(_ context.Context, t taskstage.Task) (broker.Task, error) {
	k := broker.Task{ID: "t-1", NodeID: t.NodeID, Type: t.Type, Status: broker.TaskQueued}
	if m.fails != "" {
		k.Status, k.Outcome, k.Code = broker.TaskFailed, taskcatalog.OutcomeFailed, m.fails
	}
	return k, nil
}

// quiet is a broker with one node of a machine in MAAS, and no agent.
type quiet struct {
	t       *testing.T
	ctx     context.Context
	db      *store.DB
	clock   *storetest.Clock
	engine  *chain.Engine
	nodes   *mute
	silence *Silence
	node    string
}

var ada = chain.Actor{Name: "ada", Role: "operator"}

func newQuiet(t *testing.T, db *store.DB, clock *storetest.Clock, system string, policy func(*broker.Policy)) *quiet {
	t.Helper()
	q := &quiet{t: t, ctx: t.Context(), db: db, clock: clock, node: "n-abcdefghijklmnop"}
	site := broker.NewSite("0000-dc1")
	site.Name, site.APIBaseURL, site.PXEIface, site.NodePXEIface, site.RegionCode = "dc1", "https://maas.example/MAAS", "ens19", "eno1", "eu-1"
	profile := broker.NewProfile("1111-default", site.ID, broker.DefaultProfile)
	profile.Policy.DrainTimeoutSeconds = 6
	policy(&profile.Policy)
	_, err := db.CreateSite(q.ctx, broker.System, site, profile)
	q.ok(err)
	sku := broker.NewSKU()
	sku.ID = "h100"
	_, err = db.CreateSKU(q.ctx, broker.System, sku)
	q.ok(err)
	q.join(q.node, "gpu-1", system)
	q.nodes = &mute{Nodes: &Nodes{DB: db, Queue: taskqueue.New(taskqueue.Config{DB: db}), Now: clock.Now}}
	q.engine, err = chain.New(db, chain.Classes{chain.Class(broker.AgentSilent): {Ends: chain.FailedManual}}, chain.Options{Owner: "b"}, (&turnover.Chains{Nodes: q.nodes, MAAS: &onboarding.Chains{}}).All()...)
	q.ok(err)
	q.silence = &Silence{Starts: &Starts{DB: db, Runs: q.engine}, Log: zap.NewNop()}
	return q
}

// join adds an active node.
func (q *quiet) join(id, hostname, system string) {
	q.t.Helper()
	_, err := q.db.CreateNode(q.ctx, broker.System, store.NewNode{ID: id, Hostname: hostname, Site: "dc1", SKU: "h100", MAASSystemID: system, TokenHash: "h" + id, TokenExpires: q.db.Now().Add(time.Hour)})
	q.ok(err)
	_, err = q.db.Enroll(q.ctx, store.EnrollInput{
		TokenHash: "h" + id, PublicKeyDigest: "k" + id, TrustVersion: 1, MAASSystemID: system, Report: store.NodeReport{TaskTypes: taskcatalog.IDs(), Digest: "d"},
		Issue: func(broker.Node, int64) (store.IssuedCert, error) {
			return store.IssuedCert{Serial: "01" + id, PublicKey: []byte("k" + id), NotBefore: q.db.Now(), NotAfter: q.db.Now().Add(time.Hour)}, nil
		},
	})
	q.ok(err)
	_, err = q.db.FirstContact(q.ctx, id, 1, "01"+id)
	q.ok(err)
	q.ok(q.db.SaveBaseline(q.ctx, broker.System, id, "sha256:b", []byte("{}"), "test"))
	_, err = q.db.Transition(q.ctx, broker.System, id, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"})
	q.ok(err)
}

func (q *quiet) ok(err error) {
	q.t.Helper()
	if err != nil {
		q.t.Fatal(err)
	}
}

// reset begins a soft reset, and runs it until it stops.
func (q *quiet) reset() chain.Record {
	q.t.Helper()
	return q.settle(q.begins(q.node))
}

// begins begins a soft reset.
func (q *quiet) begins(node string) (run string) {
	q.t.Helper()
	n, err := q.db.Node(q.ctx, node)
	q.ok(err)
	at, err := q.silence.Starts.Place(q.ctx, n, "")
	q.ok(err)
	state, locks, err := turnover.New(n, at, turnover.Request{Mode: turnover.SoftReset, Erase: "secure", StorageCleanup: "all", Reason: "the tenant left", RequestedBy: "ada"})
	q.ok(err)
	r, err := q.engine.Start(q.ctx, NewStart(n, state, locks, Requester{Name: "ada"}))
	q.ok(err)
	return r.ID
}

// settle runs a run until it stops or ends.
func (q *quiet) settle(id string) chain.Record {
	q.t.Helper()
	for range 1000 {
		r, err := q.db.Run(q.ctx, id)
		q.ok(err)
		if !r.Status.Moving() {
			return r
		}
		worked, err := q.engine.Step(q.ctx)
		q.ok(err)
		if !worked {
			q.clock.Advance(5 * time.Second)
		}
	}
	q.t.Fatalf("run %s does not come to an end", id)
	return chain.Record{}
}

func (q *quiet) act(id string, a chain.Action) {
	q.t.Helper()
	_, err := q.engine.Act(q.ctx, chain.Order{ID: id, Actor: ada, Action: a, Reason: "because"})
	q.ok(err)
}

func (q *quiet) look(times int) {
	q.t.Helper()
	for range times {
		q.ok(q.silence.look(q.ctx))
	}
}

// reimages are the runs that replace others.
func (q *quiet) reimages() []chain.Record {
	q.t.Helper()
	all, err := q.db.Runs(q.ctx, chain.Filter{Kind: turnover.Reimage.Kind()})
	q.ok(err)
	return all
}

func wants(p *broker.Policy) { p.ReimageWhenSilent = true }

// A leader may die after any step: the records tell the next step, and nothing begins twice.
func TestASilentNodeIsReimagedWhereThePolicySaysSo(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		q := newQuiet(t, db, clock, "abc123", wants)
		r := q.reset()
		if r.Stage != "drain_node" || r.Failure == nil || r.Failure.Code != "agent_silent" {
			t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
		}
		q.look(1)
		if r = q.settle(r.ID); r.Status != chain.Cancelled || r.AskedBy != "system" || len(q.reimages()) != 0 {
			t.Fatalf("%s, asked by %s; %d reimages", r.Status, r.AskedBy, len(q.reimages()))
		}
		// Here the leader has died. Two more leaders follow.
		for range 2 {
			q.silence = &Silence{Starts: &Starts{DB: db, Runs: q.engine}, Log: zap.NewNop()}
			q.look(2)
		}
		all := q.reimages()
		if len(all) != 1 || all[0].ID != turnover.FollowerOf(r.ID) {
			t.Fatalf("%+v", all)
		}
		var s turnover.Turnover
		q.ok(json.Unmarshal(all[0].State, &s))
		if s.Follows != r.ID || !s.Silent || s.Erase != "secure" || s.StorageCleanup != "all" || s.NodeID != q.node || s.RequestedBy != "system" || s.Profile == "" {
			t.Errorf("%+v", s)
		}
		if want := "run " + r.ID + " met a silent agent (reimage_when_silent): the tenant left"; s.Reason != want {
			t.Errorf("reason %q", s.Reason)
		}
		// A cancel by a person stays: the reimage does not begin again.
		q.act(all[0].ID, chain.Cancel)
		q.settle(all[0].ID)
		q.look(3)
		if all := q.reimages(); len(all) != 1 || all[0].Status != chain.Cancelled {
			t.Errorf("after a person's cancel there are %+v", all)
		}
	})
}

// A watcher of a run learns at each step whether a reimage replaces it, and which.
func TestARunTellsWhatComesInItsPlace(t *testing.T) {
	tells := func(t *testing.T, q *quiet, run string, want Handover) {
		t.Helper()
		r, err := q.db.Run(q.ctx, run)
		q.ok(err)
		if got, err := q.silence.Starts.Handover(q.ctx, r); err != nil || got != want {
			t.Errorf("%s at %s: %+v, %v, not %+v", r.Status, r.Stage, got, err, want)
		}
	}
	open := func(t *testing.T, system string, policy func(*broker.Policy)) *quiet {
		clock := storetest.NewClock()
		return newQuiet(t, storetest.Open(t, "sqlite", clock.Now), clock, system, policy)
	}
	t.Run("a reimage", func(t *testing.T) {
		q := open(t, "abc123", wants)
		id := q.begins(q.node)
		tells(t, q, id, Handover{})
		q.settle(id)
		tells(t, q, id, Handover{Due: true})
		q.look(1)
		q.settle(id)
		tells(t, q, id, Handover{Due: true})
		q.look(1)
		tells(t, q, id, Handover{Run: turnover.FollowerOf(id)})
		tells(t, q, turnover.FollowerOf(id), Handover{})
	})
	t.Run("a person takes the node when the run was cancelled", func(t *testing.T) {
		q := open(t, "abc123", wants)
		r := q.reset()
		q.look(1)
		q.settle(r.ID)
		_, err := q.db.Transition(q.ctx, broker.Actor{Name: "ada"}, q.node, store.Change{To: broker.Active, By: broker.OwnerOverride, ClearTurnover: true, Reason: "looked at"})
		q.ok(err)
		tells(t, q, r.ID, Handover{})
	})
	for name, test := range map[string]struct {
		system string
		policy func(*broker.Policy)
	}{"the policy does not say so": {"abc123", func(*broker.Policy) {}}, "MAAS has no machine of it": {"", wants}} {
		t.Run(name, func(t *testing.T) {
			q := open(t, test.system, test.policy)
			r := q.reset()
			tells(t, q, r.ID, Handover{})
			q.act(r.ID, chain.Cancel)
			q.settle(r.ID)
			tells(t, q, r.ID, Handover{})
		})
	}
}

// Another run, a person's order and a freeze go before the policy.
func TestASilentNodeThatIsInOtherHandsIsLeftAlone(t *testing.T) {
	db := func(t *testing.T) (*store.DB, *storetest.Clock) {
		clock := storetest.NewClock()
		return storetest.Open(t, "sqlite", clock.Now), clock
	}
	never := func(t *testing.T, q *quiet, r chain.Record, want chain.Status) {
		t.Helper()
		q.look(2)
		if r = q.settle(r.ID); r.Status != want || len(q.reimages()) != 0 {
			t.Errorf("%s at %s, asked by %q; %d reimages", r.Status, r.Stage, r.AskedBy, len(q.reimages()))
		}
		q.look(2)
		if all := q.reimages(); len(all) != 0 {
			t.Errorf("%+v", all)
		}
	}
	t.Run("the policy does not say so", func(t *testing.T) {
		d, clock := db(t)
		q := newQuiet(t, d, clock, "abc123", func(*broker.Policy) {})
		never(t, q, q.reset(), chain.FailedManual)
	})
	t.Run("the policy came after the run", func(t *testing.T) {
		d, clock := db(t)
		q := newQuiet(t, d, clock, "abc123", func(*broker.Policy) {})
		r := q.reset()
		_, err := d.UpdateProfile(q.ctx, broker.System, "0000-dc1", broker.DefaultProfile, "test", func(p *broker.Profile) error { p.Policy.ReimageWhenSilent = true; return nil })
		q.ok(err)
		never(t, q, r, chain.FailedManual)
	})
	t.Run("MAAS has no machine of it", func(t *testing.T) {
		d, clock := db(t)
		q := newQuiet(t, d, clock, "", wants)
		never(t, q, q.reset(), chain.FailedManual)
	})
	t.Run("another failure of the drain", func(t *testing.T) {
		d, clock := db(t)
		q := newQuiet(t, d, clock, "abc123", wants)
		q.nodes.fails = taskcatalog.CodeHandlerFailed
		r := q.reset()
		if r.Stage != "drain_node" || r.Failure.Code == "agent_silent" {
			t.Fatalf("%s: %+v", r.Stage, r.Failure)
		}
		never(t, q, r, r.Status)
	})
	t.Run("a person has stopped it", func(t *testing.T) {
		d, clock := db(t)
		q := newQuiet(t, d, clock, "abc123", wants)
		r := q.reset()
		q.act(r.ID, chain.RetryStage)
		q.act(r.ID, chain.MarkManual)
		never(t, q, q.settle(r.ID), chain.FailedManual)
	})
	t.Run("a person has cancelled it", func(t *testing.T) {
		d, clock := db(t)
		q := newQuiet(t, d, clock, "abc123", wants)
		r := q.reset()
		q.act(r.ID, chain.Cancel)
		never(t, q, q.settle(r.ID), chain.Cancelled)
	})
	t.Run("a person has it retried at that moment", func(t *testing.T) {
		d, clock := db(t)
		q := newQuiet(t, d, clock, "abc123", wants)
		r := q.reset()
		q.act(r.ID, chain.RetryStage)
		q.ok(q.silence.giveUp(q.ctx, r)) // as it was seen
		if now, err := d.Run(q.ctx, r.ID); err != nil || now.Status != chain.Pending || now.Asked != chain.AskNothing {
			t.Errorf("%+v, %v", now, err)
		}
	})
	t.Run("the site is frozen", func(t *testing.T) {
		d, clock := db(t)
		q := newQuiet(t, d, clock, "abc123", wants)
		r := q.reset()
		q.ok(d.PlaceHold(q.ctx, ada, chain.SiteHold{Site: "dc1", Kind: chain.Freeze, Reason: "test"}))
		never(t, q, r, chain.FailedManual)
	})
	t.Run("a person took the node when the run was cancelled", func(t *testing.T) {
		d, clock := db(t)
		q := newQuiet(t, d, clock, "abc123", wants)
		r := q.reset()
		q.look(1)
		q.settle(r.ID)
		_, err := d.Transition(q.ctx, broker.Actor{Name: "ada"}, q.node, store.Change{To: broker.Active, By: broker.OwnerOverride, ClearTurnover: true, Reason: "looked at"})
		q.ok(err)
		_, err = d.Transition(q.ctx, broker.Actor{Name: "ada"}, q.node, store.Change{To: broker.Quarantined, By: broker.OwnerOperator, OweTurnover: true, Reason: "odd"})
		q.ok(err)
		never(t, q, r, chain.Cancelled)
	})
	t.Run("another run has the node when this one was cancelled", func(t *testing.T) {
		d, clock := db(t)
		q := newQuiet(t, d, clock, "abc123", wants)
		r := q.reset()
		q.look(1)
		q.settle(r.ID)
		n, err := d.Node(q.ctx, q.node)
		q.ok(err)
		at, err := q.silence.Starts.Place(q.ctx, n, "")
		q.ok(err)
		state, locks, err := turnover.New(n, at, turnover.Request{Mode: turnover.SoftReset, Reason: "again"})
		q.ok(err)
		_, err = q.engine.Start(q.ctx, NewStart(n, state, locks, Requester{Name: "ada"}))
		q.ok(err)
		never(t, q, r, chain.Cancelled)
	})
}

// A backup's statement about a silent node is out of date: the run may have been retried since,
// and a tenant may be on the node.
func TestSilenceInABackupHasNobodyReimaged(t *testing.T) {
	for name, given := range map[string]bool{"stopped in the backup": false, "given up in the backup": true} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
				q := newQuiet(t, db, clock, "abc123", wants)
				r := q.reset()
				if given {
					q.look(1)
					if r = q.settle(r.ID); r.Status != chain.Cancelled {
						t.Fatalf("%s at %s", r.Status, r.Stage)
					}
				}
				_, err := db.MarkRestored(q.ctx, broker.System, clock.Now(), "a backup")
				q.ok(err)
				r, err = db.Run(q.ctx, r.ID)
				q.ok(err)
				q.look(2)
				clock.Advance(time.Minute)
				_, err = db.ReleaseRestore(q.ctx, broker.System, "compared")
				q.ok(err)
				for range 3 {
					q.look(1)
					clock.Advance(time.Minute)
					after, err := db.Run(q.ctx, r.ID)
					q.ok(err)
					if all := q.reimages(); len(all) != 0 || after.Version != r.Version {
						t.Fatalf("after the release the run is %s, was %s, and there are %d reimages", after.Status, r.Status, len(all))
					}
				}
				found, err := db.Differences(q.ctx)
				q.ok(err)
				if given != (len(found) == 0) {
					t.Errorf("listed: %+v", found)
				}
				if given {
					return
				}
				// A person who has looked may confirm the silence.
				q.act(r.ID, chain.RetryStage)
				if r = q.settle(r.ID); r.Failure == nil || r.Failure.Code != "agent_silent" {
					t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
				}
				q.look(1)
				q.settle(r.ID)
				q.look(1)
				if len(q.reimages()) != 1 {
					t.Error("one that falls silent after the release is not reimaged")
				}
			})
		})
	}
}
