package nodeapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

const heartbeat = `{"agent_version":"1.0","boot_id":"b","uptime_seconds":1,"now":"2026-07-01T12:00:00Z","root_free_bytes":1,"drained":false}`

// waits begins a poll; its answer comes on the channel.
func (n *testNode) waits(ctx context.Context, lanes string) <-chan *answer {
	n.b.t.Helper()
	got := make(chan *answer, 1)
	before := n.b.WaitingPolls()
	go func() { got <- n.do(ctx, http.MethodGet, n.path("/tasks/wait?lanes="+lanes), nil) }()
	eventually(n.b.t, "the poll waits", func() bool { return n.b.WaitingPolls() > before || len(got) > 0 })
	return got
}

// fetch polls until there is a task of this type.
func (n *testNode) fetch(typ string) (wire.Delivery, *taskcatalog.Task) {
	n.b.t.Helper()
	for {
		var reply wire.WaitReply
		n.get(n.path("/tasks/wait?lanes=exclusive,concurrent")).into(&reply)
		for _, d := range reply.Tasks {
			env := must(pki.ParseEnvelope([]byte(d.Envelope)))(n.b.t)
			task := must(n.bundle.VerifyTask(env, n.b.clock.Now()))(n.b.t)
			if task.Type == typ {
				return d, task
			}
		}
	}
}

func (b *testBroker) enqueue(n *testNode, typ, params string) broker.Task {
	b.t.Helper()
	k, _, err := b.queue.Enqueue(context.Background(), admin, taskqueue.Request{NodeID: n.id, Type: typ, Params: json.RawMessage(params)})
	must0(b.t, err)
	return k
}

// succeed is an honest result.
func (n *testNode) succeed(d wire.Delivery, task *taskcatalog.Task, result string) wire.ResultRequest {
	n.b.t.Helper()
	now := n.b.clock.Now()
	raw := must(pki.SignEvidence(taskcatalog.Evidence{
		TaskID: task.TaskID, TaskDigest: pki.Digest([]byte(d.Envelope)), NodeID: n.id, NodeEpoch: n.epoch, BootID: "b", Nonce: task.Nonce,
		StartedAt: now, FinishedAt: now, AgentVersion: "1.0", Outcome: taskcatalog.OutcomeSucceeded, ResultDigest: pki.Digest([]byte(result)),
	}, n.key))(n.b.t)
	return wire.ResultRequest{Attempt: d.Attempt, Outcome: taskcatalog.OutcomeSucceeded, Result: json.RawMessage(result), Evidence: string(raw)}
}

func TestATaskFromEnqueueToItsResult(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		n := b.member()
		poll := n.waits(t.Context(), "")
		k := b.enqueue(n, "node.heartbeat_check", "")
		poll2 := n.waits(t.Context(), "concurrent") // the lanes of the first poll have no room for it
		(<-poll2).into(new(wire.WaitReply))
		b.advance(wire.LeaseTime + time.Second)
		must(b.queue.Sweep(t.Context()))(t)

		d, task := n.fetch("node.heartbeat_check")
		if d.TaskID != k.ID || d.Attempt != 2 {
			t.Errorf("delivered %s, attempt %d, want %s again", d.TaskID, d.Attempt, k.ID)
		}
		var progress wire.ProgressReply
		n.post(n.path("/tasks/"+k.ID+"/progress"), wire.ProgressRequest{Attempt: d.Attempt, TotalSteps: 1, CurrentStepName: "look", StepStatus: "running", StepStartedAt: clock.Now(), StepPercent: 50}).into(&progress)
		if !progress.LeaseUntil.Equal(clock.Now().Add(wire.LeaseTime)) {
			t.Errorf("lease until %v", progress.LeaseUntil)
		}
		var first, again wire.ResultReply
		n.post(n.path("/tasks/"+k.ID+"/result"), n.succeed(d, task, heartbeat)).into(&first)
		n.post(n.path("/tasks/"+k.ID+"/result"), n.succeed(d, task, heartbeat)).into(&again)
		if first.Status != "succeeded" || first.Repeat || !again.Repeat {
			t.Errorf("first %+v, again %+v", first, again)
		}
		select {
		case a := <-poll:
			t.Errorf("a poll without lanes was answered: %d %s", a.status, a.body)
		default:
		}
	})
}

func TestANewNodeIsAskedForItsBaselineOnce(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	d, task := n.fetch("node.validate_clean")
	if !strings.Contains(string(task.Params), `"take_baseline":true`) {
		t.Errorf("params %s", task.Params)
	}
	if rec := must(b.db.Task(t.Context(), d.TaskID))(t); rec.EnqueuedBy != "system" {
		t.Errorf("enqueued by %s", rec.EnqueuedBy)
	}
	b.advance(recheckEvery) // the record is read again
	n.waits(t.Context(), "")
	tasks, _, err := b.db.ListTasks(t.Context(), store.TaskFilter{NodeID: n.id})
	must0(t, err)
	if len(tasks) != 1 {
		t.Errorf("%d tasks, want the one", len(tasks))
	}
}

func TestAnEnqueueWakesTheWaitingNode(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	n.fetch("node.validate_clean")
	poll := n.waits(t.Context(), "concurrent")
	k := b.enqueue(n, "node.heartbeat_check", "")
	var reply wire.WaitReply
	(<-poll).into(&reply)
	if len(reply.Tasks) != 1 || reply.Tasks[0].TaskID != k.ID {
		t.Errorf("answer %+v", reply)
	}
}

func TestDenyingEndsAWaitingPoll(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		n, other := b.member(), b.member()
		poll, others := n.waits(t.Context(), ""), other.waits(t.Context(), "")
		must0(t, db.Deny(t.Context(), admin, pki.Serial(n.cert.Leaf), "stolen"))
		select {
		case a := <-poll:
			a.refused(b, 403, "certificate_denied")
			if !a.closed {
				t.Error("the connection stays open")
			}
		case <-time.After(2 * time.Second):
			t.Fatal("the poll still waits after 2 seconds")
		}
		select {
		case a := <-others:
			t.Errorf("another node's poll ended: %d %s", a.status, a.body)
		default:
		}
	})
}

func TestAStoppingBrokerLetsItsPollsGo(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	poll := n.waits(t.Context(), "")
	b.stop()
	(<-poll).nothing()
	n.get(n.path("/tasks/wait?lanes=")).nothing() // the node takes no new tasks
}

func TestANodeMayNotWaitInManyPlaces(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	ctx, leave := context.WithCancel(t.Context())
	for range maxPolls {
		n.waits(ctx, "")
	}
	n.get(n.path("/tasks/wait?lanes=")).refused(b, 429, "too_many_polls")
	leave()
	eventually(t, "they have left", func() bool { return b.WaitingPolls() == 0 })
	n.waits(t.Context(), "")
}

func TestLanesHaveOneForm(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	for _, query := range []string{"", "?", "?lanes", "?lanes=fast", "?lanes=exclusive,exclusive", "?lanes=exclusive,", "?Lanes=exclusive", "?lanes=exclusive&lanes=concurrent", "?lanes=exclusive&hold=1h", "?hold=1&lanes=exclusive", "?lanes=%65xclusive"} {
		n.get(n.path("/tasks/wait"+query)).refused(b, 422, "bad_lanes")
	}
	for query, want := range map[string]int{"lanes=": 0, "lanes=exclusive": 1, "lanes=concurrent,exclusive": 2, "lanes=exclusive%2Cconcurrent": 2} {
		if lanes, err := lanesOf(query); err != nil || len(lanes) != want {
			t.Errorf("%s: %v (%v)", query, lanes, err)
		}
	}
}

func TestEachPollIsAHeartbeatWrittenInBatches(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		n := b.member()
		ctx, leave := context.WithCancel(t.Context())
		n.waits(ctx, "")
		b.advance(30 * time.Second)
		leave()
		eventually(t, "the end of the poll counts too", func() bool {
			b.flushContacts(t.Context())
			return must(db.Node(t.Context(), n.id))(t).LastAgentContactAt.Equal(clock.Now())
		})
	})
}

func TestABatchThatCouldNotBeWrittenIsKept(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	at := b.clock.Now().Add(time.Minute)
	b.contacts.touch(new(contact), n.id, at)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	b.flushContacts(gone)
	b.flushContacts(t.Context())
	if got := must(b.db.Node(t.Context(), n.id))(t).LastAgentContactAt; !got.Equal(at) {
		t.Errorf("last heard at %v, want %v", got, at)
	}
}

func TestANodeThatChangedIsAskedForItsReport(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	report := wire.ReportDigest(taskcatalog.IDs(), map[string]string{}, nil, nil)
	n.header.Set(wire.HeaderReport, report)
	n.fetch("node.validate_clean")
	n.header.Set(wire.HeaderReport, wire.ReportDigest([]string{"node.drain@1"}, nil, nil, nil))
	var reply wire.WaitReply
	n.get(n.path("/tasks/wait?lanes=")).into(&reply)
	if !reply.Report {
		t.Error("not asked")
	}
	poll := n.waits(t.Context(), "") // asked once a minute, not in a loop
	select {
	case a := <-poll:
		t.Errorf("answered again: %d %s", a.status, a.body)
	default:
	}
	r := n.renewRequest()
	r.TaskTypes = []string{"node.drain@1"}
	var renewed wire.RenewReply
	n.post(n.path("/renew"), r).into(&renewed)
	n.adopt(renewed.Certificate)
	b.advance(askEvery)
	n.waits(t.Context(), "") // not asked again after an answer
}

func TestAPollThatPrefersNotToWaitIsAnsweredAtOnce(t *testing.T) {
	n := newBroker(t).member()
	n.header.Set(wire.HeaderPrefer, wire.PreferNoWait)
	if a := n.get(n.path("/tasks/wait?lanes=")); a.status != http.StatusNoContent {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestATaskOfAnotherNodeIsNone(t *testing.T) {
	b := newBroker(t)
	n, other := b.member(), b.member()
	k := b.enqueue(n, "node.heartbeat_check", "")
	d, task := n.fetch("node.heartbeat_check")
	other.post(other.path("/tasks/"+k.ID+"/progress"), wire.ProgressRequest{Attempt: 1, TotalSteps: 1, StepStatus: "running", StepStartedAt: b.clock.Now()}).refused(b, 404, "task_not_found")
	b.advance(time.Minute)
	other.post(other.path("/tasks/"+k.ID+"/result"), n.succeed(d, task, heartbeat)).refused(b, 404, "task_not_found")
	b.advance(time.Minute)
	other.post(other.path("/tasks/"+k.ID+"/credentials/mint"), wire.MintRequest{Attempt: 1, CredentialType: "oci_pull"}).refused(b, 404, "task_not_found")
	if got := must(b.db.Task(t.Context(), k.ID))(t); got.Status != broker.TaskDispatched {
		t.Errorf("the task is %s", got.Status)
	}
}

func TestASecretWhoseAnswerWasLostIsGivenAgain(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		n := b.member()
		k := b.enqueue(n, "node.heartbeat_check", "")
		d, _ := n.fetch("node.heartbeat_check")
		n.header.Set(wire.HeaderRequest, strings.Repeat("a", 32))
		for range 2 {
			var reply wire.MintReply
			n.post(n.path("/tasks/"+k.ID+"/credentials/mint"), wire.MintRequest{Attempt: d.Attempt, CredentialType: "oci_pull"}).into(&reply)
			if reply.Secret != "s3cret-of-the-task" {
				t.Errorf("secret %q", reply.Secret)
			}
			b.advance(2 * time.Second)
		}
	})
}

func TestASecretIsGivenOncePerAttemptToWhoHoldsTheLease(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		n := b.member()
		k := b.enqueue(n, "node.heartbeat_check", "")
		mint := func(attempt int, credential string) *answer {
			t.Helper()
			return n.post(n.path("/tasks/"+k.ID+"/credentials/mint"), wire.MintRequest{Attempt: attempt, CredentialType: credential})
		}
		mint(1, "oci_pull").refused(b, 409, "lease_lost") // not delivered yet
		d, _ := n.fetch("node.heartbeat_check")
		mint(d.Attempt, "maas_machine_token").refused(b, 403, "credential_not_for_task")
		mint(d.Attempt+1, "oci_pull").refused(b, 409, "lease_lost")
		soon := mint(d.Attempt, "oci_pull")
		soon.refused(b, 429, "mint_too_soon")
		if after := soon.header.Get("Retry-After"); after != "1" {
			t.Errorf("to be asked again after %q", after)
		}
		b.advance(time.Second)
		a := mint(d.Attempt, "oci_pull")
		var reply wire.MintReply
		a.into(&reply)
		if reply.Secret != "s3cret-of-the-task" || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("secret %q, cache control %q", reply.Secret, a.header.Get("Cache-Control"))
		}
		mint(d.Attempt, "oci_pull").refused(b, 409, "already_minted")
		n.header.Set(wire.HeaderRequest, strings.Repeat("a", 32)) // under no name it was asked
		mint(d.Attempt, "oci_pull").refused(b, 409, "already_minted")
		n.header.Set(wire.HeaderRequest, "../a")
		mint(d.Attempt, "oci_pull").refused(b, 422, "bad_request_id")
		n.header.Del(wire.HeaderRequest)
		b.advance(wire.LeaseTime + time.Second)
		mint(d.Attempt, "oci_pull").refused(b, 409, "lease_lost")

		given := 0
		for _, row := range must(db.ListAudit(t.Context(), store.AuditFilter{Limit: 1000}))(t) {
			if strings.Contains(row.Reason+string(row.Before)+string(row.After), "s3cret") {
				t.Errorf("row %d shows the secret", row.ID)
			}
			if row.Action == "credential.mint" && row.Code == "" {
				given++
			}
		}
		if given != 1 {
			t.Errorf("%d rows say that a secret was given, want 1", given)
		}
	})
}

// A whole rotation passes while the node is away. The node comes back with an expired certificate
// and an old bundle, and catches up by itself.
func TestAwayThroughAWholeKeyRotation(t *testing.T) {
	for _, use := range []pki.KeyUse{pki.UseTask, pki.UseTrust, pki.UseStatement, pki.UseRoot} {
		t.Run(string(use), func(t *testing.T) {
			b := newBroker(t)
			away := b.member()
			away.fetch("node.validate_clean")
			b.advance(time.Hour)
			must(b.trust.Rotate(t.Context(), admin, use, "due"))(t)
			if err := b.trust.Finish(t.Context(), admin, nil, "done"); broker.AsError(err).Code != "nodes_not_confirmed" {
				t.Fatalf("finished without the node that is away: %v", err)
			}
			b.advance(72 * time.Hour)

			away.connect(away.cert)
			var renewed wire.RenewReply
			away.post(away.path("/renew"), away.renewRequest()).into(&renewed)
			if !renewed.Late {
				t.Error("not taken for a late renewal")
			}
			away.adopt(renewed.Certificate)
			d, task := away.fetch("node.trust_update")
			var params taskcatalog.TrustUpdateParams
			must0(t, taskcatalog.DecodeStrict(task.Params, &params))
			away.bundle = must(away.bundle.Accept([]byte(params.Bundle), b.clock.Now()))(t)
			away.post(away.path("/tasks/"+d.TaskID+"/result"), away.succeed(d, task, `{"version":2,"changed":true}`)).into(new(wire.ResultReply))

			must(b.queue.Sweep(t.Context()))(t) // ends the unanswered tasks
			must0(t, b.trust.Finish(t.Context(), admin, nil, "done"))
			away.connect(away.cert)
			away.fetch("node.trust_update") // the bundle without the old key
			b.enqueue(away, "node.heartbeat_check", "")
			away.fetch("node.heartbeat_check")
		})
	}
}

func TestANodeSaysWhichBundleItHas(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	must(b.trust.Rotate(t.Context(), admin, pki.UseTask, "due"))(t)
	for _, tt := range []struct {
		header string
		want   int64
	}{{"99", 1}, {"-1", 1}, {"x", 1}, {"1", 1}, {"2", 2}, {"1", 2}} {
		n.header.Set(wire.HeaderTrustVersion, tt.header)
		n.get(n.path("/tasks/wait?lanes=nothing")).refused(b, 422, "bad_lanes")
		if rec := must(b.db.Node(t.Context(), n.id))(t); rec.TrustVersion != tt.want {
			t.Errorf("header %s: version %d on record, want %d", tt.header, rec.TrustVersion, tt.want)
		}
	}
}
