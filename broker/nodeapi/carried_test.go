package nodeapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/resolver"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/resolver-profiles/profilestest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// wantSet assigns the shipped set to every node.
func (b *testBroker) wantSet() (digest string) {
	b.t.Helper()
	set, problems := profiles.Parse(profilestest.Shipped()...)
	if problems != nil {
		b.t.Fatal(problems)
	}
	raw := must(set.Encode())(b.t)
	ctx := context.Background()
	must(b.db.PushResolverSet(ctx, admin, store.ResolverSet{Digest: set.Digest(), Version: "v1", Profiles: raw}))(b.t)
	b.want()
	return set.Digest()
}

func (b *testBroker) want() {
	b.t.Helper()
	_, _, err := b.db.WantResolver(context.Background(), admin, must(broker.ParseSelector("all"))(b.t), "v1", "test")
	must0(b.t, err)
}

// look is the leader's work of every two seconds.
func (b *testBroker) look() {
	b.t.Helper()
	w := &resolver.Watch{DB: b.db, Queue: b.queue, Now: b.clock.Now, Log: zap.NewNop()}
	must0(b.t, w.Look(context.Background()))
}

// given are the node's tasks with a set, oldest first.
func (b *testBroker) given(id string) []broker.Task {
	b.t.Helper()
	tasks, _, err := b.db.ListTasks(context.Background(), store.TaskFilter{NodeID: id, Type: "node.resolver_config"})
	must0(b.t, err)
	slices.Reverse(tasks)
	return tasks
}

// joins enrols and returns the task that the answer carried.
func (n *testNode) joins(token string) *wire.CarriedTask {
	n.b.t.Helper()
	var reply wire.EnrollReply
	n.post(enrollPath, n.enrollRequest(token)).into(&reply)
	n.take(reply)
	return reply.ResolverConfig
}

// opens verifies a carried task, as a node does.
func (n *testNode) opens(c *wire.CarriedTask) *taskcatalog.Task {
	n.b.t.Helper()
	if c == nil {
		n.b.t.Fatal("the answer carries no task")
		return nil
	}
	env := must(pki.ParseEnvelope([]byte(c.Envelope)))(n.b.t)
	task := must(n.bundle.VerifyTask(env, n.b.clock.Now()))(n.b.t)
	if task.TaskID != c.TaskID || task.NodeID != n.id || task.NodeEpoch != n.epoch || task.Type != "node.resolver_config" {
		n.b.t.Fatalf("carried as %s: %+v", c.TaskID, task)
	}
	return task
}

// tokenFor is a further token for an existing node.
func (b *testBroker) tokenFor(id string) string {
	b.t.Helper()
	secret := must(pki.NewEnrollToken(rand.Reader))(b.t)
	must0(b.t, b.db.IssueToken(context.Background(), admin, id, pki.HashToken(secret.Reveal()), b.clock.Now().Add(time.Hour), "test"))
	return secret.Reveal()
}

func TestTheAnswerCarriesTheSetThatTheNodeShallHave(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		digest := b.wantSet()
		id, token := b.create(store.NewNode{})
		n := b.machine()
		lost := n.joins(token)
		task := n.opens(lost)
		var p taskcatalog.ResolverConfigParams
		if err := json.Unmarshal(task.Params, &p); err != nil || p.Version != "v1" || p.Digest != digest || len(p.Profiles) == 0 {
			t.Errorf("it carries %s %s, %d bytes (%v)", p.Version, p.Digest, len(p.Profiles), err)
		}

		// A Watch makes no second task, and the answer repeated after a loss is the same.
		b.look()
		b.advance(30 * time.Minute)
		n.connect(nil)
		if again := n.joins(token); again == nil || *again != *lost {
			t.Errorf("the second answer carries %+v", again)
		}
		b.look()
		got := b.given(id)
		if len(got) != 1 || got[0].ID != lost.TaskID || got[0].Status != broker.TaskQueued || got[0].Attempt != 0 || got[0].EnqueuedBy != "system" {
			t.Fatalf("it was given %+v, want the one that is queued", got)
		}

		// Carrying a task is not delivery: its result counts only after delivery.
		early := n.succeed(wire.Delivery{TaskID: lost.TaskID, Envelope: lost.Envelope}, task, `{"version":"v1","digest":"`+digest+`","changed":true}`)
		n.post(n.path("/tasks/"+lost.TaskID+"/result"), early).refused(b, http.StatusConflict, "attempt_unknown")
		d, _ := n.fetch("node.resolver_config")
		if d.TaskID != lost.TaskID || d.Envelope != lost.Envelope || d.Attempt != 1 {
			t.Errorf("delivered is %s, attempt %d", d.TaskID, d.Attempt)
		}
		early.Attempt = 1
		n.post(n.path("/tasks/"+d.TaskID+"/result"), early).into(new(wire.ResultReply))
		rec := must(b.db.Node(t.Context(), id))(t)
		if rec.Status != broker.Enrolling || rec.ResolverDigest != digest {
			t.Errorf("it is %s with %s", rec.Status, rec.ResolverDigest)
		}
	})
}

func TestWhereNoSetIsWantedTheAnswerCarriesNone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		id, token := b.create(store.NewNode{})
		n := b.machine()
		a := n.post(enrollPath, n.enrollRequest(token))
		if strings.Contains(string(a.body), "resolver_config") {
			t.Errorf("the answer is %s", a.body)
		}
		var reply wire.EnrollReply
		a.into(&reply)
		// The set is assigned now: the repeated answer carries it.
		b.wantSet()
		n.connect(nil)
		if n.opens(n.joins(token)); len(b.given(id)) != 1 {
			t.Errorf("%d tasks", len(b.given(id)))
		}
	})
}

// A machine that repeats its enrolment a day later does not get a task that has expired; the set
// comes with a poll.
func TestWhatCannotStartAnyMoreIsNotCarried(t *testing.T) {
	b := newBroker(t)
	b.wantSet()
	id, token := b.create(store.NewNode{})
	n := b.machine()
	n.opens(n.joins(token))
	b.advance(24 * time.Hour)
	n.connect(nil)
	var reply wire.EnrollReply
	n.post(enrollPath, n.enrollRequest(token)).into(&reply)
	if reply.ResolverConfig != nil {
		t.Errorf("the answer carries %+v", reply.ResolverConfig)
	}
	must(b.queue.Sweep(t.Context()))(t)
	b.advance(2 * time.Minute)
	b.look()
	if got := b.given(id); len(got) != 2 || got[0].Status != broker.TaskExpired || got[1].Status != broker.TaskQueued {
		t.Errorf("%+v", got)
	}
}

// An agent that cannot take a set still enrols.
func TestANodeThatDoesNotKnowTheTaskEnrolsWithoutIt(t *testing.T) {
	b := newBroker(t)
	b.wantSet()
	id, token := b.create(store.NewNode{})
	n := b.machine()
	r := n.enrollRequest(token)
	r.TaskTypes = []string{"node.heartbeat_check@1"}
	var reply wire.EnrollReply
	n.post(enrollPath, r).into(&reply)
	if reply.ResolverConfig != nil || len(b.given(id)) != 0 {
		t.Errorf("the answer carries %+v", reply.ResolverConfig)
	}
}

// The answer carries the task that a Watch made first.
func TestTheAnswerCarriesTheTaskThatAWatchHasMade(t *testing.T) {
	b := newBroker(t)
	id, token := b.create(store.NewNode{})
	n := b.machine()
	n.post(enrollPath, n.enrollRequest(token)).into(new(wire.EnrollReply)) // the answer is lost
	b.wantSet()
	b.look()
	made := b.given(id)
	if c := n.joins(token); len(made) != 1 || n.opens(c).TaskID != made[0].ID || len(b.given(id)) != 1 {
		t.Errorf("made %+v, carried %+v", made, c)
	}
}

// A refusal before the delivery is audited with its reason, and ends nothing.
func TestARefusalOfACarriedTaskIsAuditedAndTheTaskStaysQueued(t *testing.T) {
	b := newBroker(t)
	b.wantSet()
	id, token := b.create(store.NewNode{})
	n := b.machine()
	c := n.joins(token)
	n.post(n.path("/tasks/"+c.TaskID+"/result"), wire.ResultRequest{
		Outcome: taskcatalog.OutcomeRefused, Code: taskcatalog.CodeUnknownKey, Message: "no such key \x1b[2J",
	}).refused(b, http.StatusConflict, "attempt_unknown")
	if why := b.audited("attempt_unknown").Reason; !strings.Contains(why, "unknown_key: no such key") || strings.Contains(why, "\x1b") {
		t.Errorf("the audit log says %q", why)
	}
	if got := b.given(id); len(got) != 1 || got[0].Status != broker.TaskQueued {
		t.Errorf("%+v", got)
	}
	if d, _ := n.fetch("node.resolver_config"); d.TaskID != c.TaskID {
		t.Errorf("delivered is %s", d.TaskID)
	}
}

// Each enrolment has a task of its own: the task of the previous epoch is for a node that no longer
// exists.
func TestANewEnrolmentCarriesATaskOfItsOwnEpoch(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		b.wantSet()
		id, token := b.create(store.NewNode{})
		first := b.machine()
		ids := map[string]bool{first.opens(first.joins(token)).TaskID: true}
		for range 4 { // more often than a set is tried
			n := b.machine()
			c := n.joins(b.tokenFor(id))
			ids[n.opens(c).TaskID] = true
			b.look()
			if d, _ := n.fetch("node.resolver_config"); d.TaskID != c.TaskID {
				t.Errorf("carried %s, delivered %s", c.TaskID, d.TaskID)
			}
		}
		if rec := must(b.db.Node(t.Context(), id))(t); rec.Status != broker.Enrolling || rec.Epoch != 5 || len(ids) != 5 || len(b.given(id)) != 5 {
			t.Errorf("it is %s at epoch %d with %d tasks (%d)", rec.Status, rec.Epoch, len(b.given(id)), len(ids))
		}
	})
}

// An answer gives a node that was in service the set that it took before. A set that it has never
// taken comes in its wave, because a bad set must stop at the first node.
func TestANodeInServiceThatEnrolsAnewIsCarriedWhatItTookBefore(t *testing.T) {
	b := newBroker(t)
	digest := b.wantSet()
	id, token := b.create(store.NewNode{})
	n := b.machine()
	task := n.opens(n.joins(token))
	var reply wire.WaitReply
	n.get(n.path("/tasks/wait?lanes=exclusive,concurrent")).into(&reply)
	for _, d := range reply.Tasks { // the set, and the baseline
		result := `{"version":"v1","digest":"` + digest + `","changed":true}`
		if d.TaskID != task.TaskID {
			baseline := taskcatalog.Baseline{TakenAt: b.clock.Now().UTC()}
			result = string(must(taskcatalog.Encode(taskcatalog.ValidateCleanResult{BaselineDigest: must(baseline.Digest())(t), Baseline: &baseline}))(t))
		}
		env := must(pki.ParseEnvelope([]byte(d.Envelope)))(t)
		n.post(n.path("/tasks/"+d.TaskID+"/result"), n.succeed(d, must(n.bundle.VerifyTask(env, b.clock.Now()))(t), result)).into(new(wire.ResultReply))
	}
	if rec := must(b.db.Node(t.Context(), id))(t); rec.Status != broker.Active {
		t.Fatalf("it is %s: %s", rec.Status, rec.StatusReason)
	}

	again := b.machine()
	if c := again.joins(b.tokenFor(id)); again.opens(c).TaskID == b.given(id)[0].ID || len(b.given(id)) != 2 {
		t.Errorf("it carries %+v of %d tasks", c, len(b.given(id)))
	}
	b.want() // a new assignment: no node has taken the set by it
	third := b.machine()
	if c := third.joins(b.tokenFor(id)); c != nil {
		t.Errorf("out of its wave it carries %+v", c)
	}
}
