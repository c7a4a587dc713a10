package allocation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/allocation"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
)

var ctx = context.Background()

// world is a broker with allocations and nodes, in memory. The turnovers are real: only what the nodes
// answer is simulated.
type world struct {
	testing.TB
	clock  *chaintest.Clock
	book   *turnovertest.Book
	store  *chaintest.Memory
	lossy  *chaintest.Lossy // the engine's view of store
	engine *chain.Engine

	all    map[string]*broker.Allocation
	keys   []string
	proofs map[string]proof // by node
	went   []string         // statuses that allocations reached, in order
	// next is asked for the nodes of an allocation at the moment of its release; empty: nothing.
	next string
	// held are runs of other kinds that have nodes. refuse is a node whose turnover is refused.
	held    map[string]*chain.Record
	refuse  string
	full    int    // how often no place is free
	old     string // a node whose agent cannot prove a login
	refuses string // a node whose agent refuses the account
	// hardened is a node whose SSH server accepts none of the keys, and accepted whether one of them was
	// accepted at the site before.
	hardened    string
	accepted    bool
	refusedKeys []string // as NODE FINGERPRINT…
	resumed     []string
	// replaces is a node whose stopped turnover a reimage is about to replace.
	replaces string
	taken    bool                // a turnover has taken a node by force
	images   map[string]string   // by node, the installed image
	installs map[string]string   // by node, the image that a reimage is to install
	forgets  bool                // reimages install another image than the one that was asked for
	proven   []string            // logins, as NODE at ADDRESS
	ended    []allocation.Change // statuses that ended a provisioning
	// bound are the operations that the SKU names, as they end when they are looked at. OperationRunning: never.
	bound map[broker.OperationTrigger]broker.OperationStatus
	// required: the operations are the SKU's. lingers are the nodes on which an operation goes on although it was given up,
	// and deaf those that never fetch their task.
	required      bool
	lingers, deaf []string
	// unread is how often an operation that has begun cannot be read.
	unread int
	busy   bool                         // another operation has the nodes
	others map[string]string            // by node, an operation of people that was cancelled and may still run
	ops    map[string]*broker.Operation // by id
	saw    []string                     // what was asked for and reached, in order
	// atHolder is called once, at the next look at a node's run.
	atHolder func()
}

// proof is the certificate on which a node was last handed out.
type proof struct {
	id string
	at time.Time
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{
		TB: t, clock: chaintest.NewClock(), images: map[string]string{}, installs: map[string]string{}, all: map[string]*broker.Allocation{}, keys: []string{"ssh-ed25519 AAAA"}, proofs: map[string]proof{},
		bound: map[broker.OperationTrigger]broker.OperationStatus{}, ops: map[string]*broker.Operation{},
	}
	w.book = turnovertest.New(t, w.clock.Now)
	w.store = chaintest.NewMemory(w.clock.Now)
	w.lossy = &chaintest.Lossy{Store: w.store}
	kinds := (&turnover.Chains{Nodes: enabled{w.book, w}, MAAS: &onboarding.Chains{}}).All()
	kinds = append(kinds, (&allocation.Chains{Records: w}).All()...)
	var err error
	if w.engine, err = chain.New(w.lossy, classes(), chain.Options{Owner: "broker"}, kinds...); err != nil {
		t.Fatal(err)
	}
	return w
}

func classes() chain.Classes {
	out := chain.Classes{}
	for _, h := range broker.FailureHandlings {
		ends := chain.FailedRetryable
		if h.Person {
			ends = chain.FailedManual
		}
		out[chain.Class(h.Class)] = chain.Handling{Retry: h.Retry, Rescue: h.Rescue, Ends: ends, NextAction: h.NextAction(), UndoAction: h.UndoAction()}
	}
	return out
}

// enabled notes the certificates on which nodes are handed out.
type enabled struct {
	*turnovertest.Book
	w *world
}

func (e enabled) Enable(ctx context.Context, nodeID, runID, certificateID string, lifts turnover.Lifts) error {
	err := e.Book.Enable(ctx, nodeID, runID, certificateID, lifts)
	if err == nil {
		e.w.proofs[nodeID] = proof{certificateID, e.w.clock.Now()}
		if image := e.w.installs[nodeID]; image != "" && !e.w.forgets {
			e.w.images[nodeID] = image
		}
	}
	return err
}

// ask makes an allocation with claims on new nodes.
func (w *world) ask(id string, nodes int) *broker.Allocation {
	w.Helper()
	a := &broker.Allocation{ID: id, ProjectID: "p-1", Nodes: nodes, Site: "dc1", KeyIDs: []string{"k-1"}}
	for i := range nodes {
		n := fmt.Sprintf("n-aaaaaaaaaaaaaa%c%c", 'a'+len(w.all), 'a'+i)
		w.book.Add(n, 1)
		a.NodeIDs = append(a.NodeIDs, n)
	}
	a.Reach(broker.AllocationRequested, w.clock.Now())
	w.all[id] = a
	return a
}

// move makes a transition of a person or a policy.
func (w *world) move(id string, to broker.AllocationStatus, by broker.AllocationOwner) {
	w.Helper()
	if err := broker.TransitionAllocation(*w.all[id], to, by); err != nil {
		w.Fatal(err)
	}
	w.all[id].Reach(to, w.clock.Now())
	w.went = append(w.went, string(to))
}

// look begins the runs that the statuses ask for, as records.Watch does.
func (w *world) look() {
	w.Helper()
	for _, a := range w.all {
		kind := broker.ProvisionKind
		switch a.Status {
		case broker.AllocationReleasing:
			kind = broker.ReleaseKind
		case broker.AllocationRequested, broker.AllocationProvisioning:
		default:
			continue
		}
		_, err := w.engine.Start(ctx, chain.Start{
			Kind: kind, Site: "dc1", Subject: "allocation/" + a.ID, Locks: []string{"allocation/" + a.ID}, RequestedBy: "system",
			State: allocation.Work{AllocationID: a.ID, Tenant: a.ProjectID, NodeIDs: a.NodeIDs, GraceSeconds: 30, HoldAfter: 3},
		})
		if _, taken := errors.AsType[*chain.Locked](err); err != nil && !taken {
			w.Fatal(err)
		}
	}
}

// settle lets everything happen that happens by itself.
func (w *world) settle() {
	w.Helper()
	for range 5 {
		w.look()
		var err error
		for range 5 { // a silence is looked at some thousand times
			if err = chaintest.Settle(ctx, w.engine, w.store, w.clock); err == nil {
				break
			}
		}
		if err != nil {
			w.Fatal(err)
		}
		w.clock.Advance(2 * time.Minute) // beyond the lease of a broker that died
	}
}

// settleFor lets happen what happens within a time.
func (w *world) settleFor(d time.Duration) {
	w.Helper()
	for end := w.clock.Now().Add(d); w.clock.Now().Before(end); {
		w.look()
		if worked, err := w.engine.Step(ctx); err != nil {
			w.Fatal(err)
		} else if !worked {
			w.clock.Advance(time.Second)
		}
	}
}

// runs are the runs of a kind, oldest first.
func (w *world) runs(kind string) []chain.Record {
	w.Helper()
	all, err := w.store.Runs(ctx, chain.Filter{Kind: kind, Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	slices.SortFunc(all, func(a, b chain.Record) int { return a.RequestedAt.Compare(b.RequestedAt) })
	return all
}

func (w *world) act(runID string, a chain.Action) {
	w.Helper()
	if _, err := w.engine.Act(ctx, chain.Order{ID: runID, Actor: chain.Actor{Name: "ada"}, Action: a, Reason: "because"}); err != nil {
		w.Fatal(err)
	}
}

// stands checks an allocation's status and code.
func (w *world) stands(id string, status broker.AllocationStatus, code string) {
	w.Helper()
	if a := w.all[id]; a.Status != status || a.Code != code {
		w.Errorf("allocation %s is %s %q, want %s %q", id, a.Status, a.Code, status, code)
	}
}

// clean checks that the nodes of an allocation are handed out again, by a certificate each.
func (w *world) clean(id string) {
	w.Helper()
	for _, n := range w.all[id].NodeIDs {
		m := w.book.Machine(n)
		if m.Status != broker.Active || m.TurnoverOwed || len(m.Users) > 0 {
			w.Errorf("node %s is %s (%s), owes %v, with %d users", n, m.Status, m.StatusReason, m.TurnoverOwed, len(m.Users))
		}
	}
}

// The port allocation.Records.

func (w *world) Request(ctx context.Context, t taskstage.Task) (broker.Task, error) {
	if len(w.book.Tasks(t.NodeID, t.Type)) == 0 {
		w.saw = append(w.saw, t.Type)
	}
	if t.Type == "allocation.provision_user" {
		if a := w.all[w.of(t.NodeID)]; a != nil && a.Image != "" && w.images[t.NodeID] != a.Image {
			w.Errorf("an account is made on node %s with image %q, and %s was asked for", t.NodeID, w.images[t.NodeID], a.Image)
		}
		m := w.book.Machine(t.NodeID)
		if w.refuses == t.NodeID { // the agent refuses the task, and the account never was there
			return broker.Task{ID: "t-" + t.Key, NodeID: t.NodeID, Type: t.Type, Status: broker.TaskFailed, Outcome: "refused", Code: "draining"}, nil
		}
		if len(m.Users) == 0 && !w.book.LetIn(t.NodeID, w.of(t.NodeID), "p-1", false) {
			return broker.Task{}, broker.Errorf(broker.Refused, "node_status", "cannot hand out node %s: it is %s", t.NodeID, m.Status)
		}
	}
	if t.Type == "allocation.check_login" && w.hardened == t.NodeID {
		return broker.Task{
			ID: "t-" + t.Key, NodeID: t.NodeID, Type: t.Type, Status: broker.TaskFailed, Outcome: "failed", Code: taskcatalog.CodeKeysRefused,
			Result: json.RawMessage(`{"address":"10.0.0.7","key_types":[],"host_key":"","refused_keys":["SHA256:a"]}`),
		}, nil
	}
	if t.Type == "allocation.check_login" && w.old == t.NodeID {
		return broker.Task{}, broker.Errorf(broker.Refused, "task_type_unsupported", "the agent of node %s does not support %s", t.NodeID, t.Type)
	}
	return w.book.Request(ctx, t)
}

func (w *world) of(nodeID string) string {
	for _, a := range w.all {
		if slices.Contains(a.NodeIDs, nodeID) && !a.Status.Ended() {
			return a.ID
		}
	}
	return ""
}

func (w *world) Withdraw(ctx context.Context, nodeID, runID, reason string) ([]broker.Task, error) {
	return w.book.Withdraw(ctx, nodeID, runID, reason)
}

func (w *world) Allocation(_ context.Context, id string) (broker.Allocation, error) {
	return *w.all[id], nil
}

func (w *world) Reach(_ context.Context, id string, c allocation.Change) error {
	a := *w.all[id]
	if a.Status == c.To {
		return nil
	}
	if c.Code != "" {
		a.Code = c.Code
	}
	if c.To == broker.AllocationReleased {
		a.CertificateIDs = c.CertificateIDs
	}
	if err := broker.TransitionAllocation(a, c.To, broker.AllocationWorker); err != nil {
		return err
	}
	if w.taken && c.To == broker.AllocationActive {
		return broker.Errorf(broker.Refused, "node_taken", "cannot make allocation %s active", id)
	}
	if c.To == broker.AllocationReleased {
		for _, n := range a.NodeIDs {
			if p := w.proofs[n]; !slices.Contains(c.CertificateIDs, p.id) || !p.at.After(a.ReleasingAt) {
				w.Errorf("allocation %s is released without a proof of node %s", id, n)
			}
		}
	}
	if c.To == broker.AllocationActive || c.To == broker.AllocationFailed {
		w.ended = append(w.ended, c)
	}
	a.Reach(c.To, w.clock.Now())
	*w.all[id] = a
	w.went, w.saw = append(w.went, string(c.To)), append(w.saw, string(c.To))
	if c.To == broker.AllocationReleased && w.next != "" {
		next := &broker.Allocation{ID: w.next, ProjectID: "p-2", Nodes: a.Nodes, Site: "dc1", KeyIDs: a.KeyIDs, NodeIDs: a.NodeIDs}
		next.Reach(broker.AllocationRequested, w.clock.Now())
		w.all[w.next], w.next = next, ""
	}
	return nil
}

func (w *world) Keys(_ context.Context, a broker.Allocation) ([]string, error) {
	if len(w.keys) == 0 {
		return nil, broker.Errorf(broker.Refused, "ssh_key_not_found", "allocation %s has no key", a.ID)
	}
	return w.keys, nil
}

func (w *world) Addresses(_ context.Context, a broker.Allocation) (map[string]string, error) {
	out := map[string]string{}
	for _, n := range a.NodeIDs {
		out[n] = "10.0.0." + n[len(n)-1:]
	}
	return out, nil
}

func (w *world) NoteLogin(_ context.Context, _ broker.Allocation, nodeID string, proof taskcatalog.CheckLoginResult) error {
	w.proven = append(w.proven, nodeID+" at "+proof.Address)
	return nil
}

func (w *world) NoteRefusedKeys(_ context.Context, _ broker.Allocation, nodeID string, fingerprints []string) error {
	if len(fingerprints) > 0 {
		w.refusedKeys = append(w.refusedKeys, nodeID+" "+strings.Join(fingerprints, " "))
	}
	return nil
}

func (w *world) KeyAcceptedBefore(context.Context, broker.Allocation) (bool, error) {
	return w.accepted, nil
}

func (w *world) Account(ctx context.Context, a broker.Allocation, nodeID string) (allocation.Account, error) {
	all, err := w.book.Occupants(ctx, nodeID)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(all, func(o broker.Occupant) bool { return o.ID == a.ID })
	switch {
	case at < 0:
		return allocation.NoAccount, nil
	case all[at].Live():
		return allocation.AccountLives, nil
	}
	return allocation.AccountEnded, nil
}

func (w *world) Proven(_ context.Context, a broker.Allocation) (map[string]string, error) {
	out, since := map[string]string{}, a.ReleasingAt
	if a.Status == broker.AllocationFailed {
		since = a.FailedAt
	}
	for _, n := range a.NodeIDs {
		if m, p := w.book.Machine(n), w.proofs[n]; len(m.Users) == 0 && !m.TurnoverOwed && p.at.After(since) {
			out[n] = p.id
		}
	}
	return out, nil
}

func (w *world) Holder(ctx context.Context, nodeID string) (*chain.Record, error) {
	if look := w.atHolder; look != nil {
		w.atHolder = nil
		look()
	}
	if r := w.held[nodeID]; r != nil {
		return r, nil
	}
	all, err := w.store.Runs(ctx, chain.Filter{Kind: broker.TurnoverKinds, Limit: 1000})
	for _, r := range all {
		var s turnover.Turnover
		if err := json.Unmarshal(r.State, &s); err != nil {
			return nil, err
		}
		if s.NodeID == nodeID && !r.Status.Ended() {
			return &r, nil
		}
	}
	return nil, err
}

func (w *world) TurnOver(ctx context.Context, a broker.Allocation, nodeID, cause, reimage string) (string, error) {
	switch {
	case w.full > 0:
		w.full--
		return "no place", nil
	case w.held[nodeID] != nil:
		return "another run", nil
	case w.refuse == nodeID:
		return "", broker.Errorf(broker.Refused, "node_status", "cannot turn over node %s", nodeID)
	}
	if slices.Contains([]broker.AllocationStatus{broker.AllocationProvisioning, broker.AllocationActive}, w.all[a.ID].Status) {
		return "", broker.Errorf(broker.Refused, "allocation_live", "allocation %s holds node %s", a.ID, nodeID)
	}
	what := "turnover"
	if reimage != "" {
		what = "reimage"
	}
	w.saw = append(w.saw, what)
	if slices.Contains(w.lingers, nodeID) != (reimage != "") && !slices.Contains(w.deaf, nodeID) {
		w.Errorf("node %s gets a %s, and an operation may run on %v", nodeID, what, w.lingers)
	}
	return w.begin(ctx, a, nodeID, cause)
}

// Bound has an operation end when it is looked at for the second time.
func (w *world) Bound(_ context.Context, a broker.Allocation, t broker.OperationTrigger, wish allocation.Wish) (*broker.Operation, string, error) {
	id := broker.BoundOperationID(a.ID, t)
	o, ends := w.ops[id], w.bound[t]
	switch {
	case ends == "" || o == nil && !wish.Begin:
		return nil, "", nil
	case ends == "away":
		return nil, "", broker.Errorf(broker.Refused, broker.PolicyEngineUnreachable, "the policy engine does not answer")
	case w.unread > 0 && o != nil:
		w.unread--
		return nil, "", errors.New("the disk is full")
	case ends == "denied":
		return nil, "", broker.Errorf(broker.Refused, "operation_denied", "cannot run %s", id)
	case w.busy:
		return nil, "run op-9-1 holds operation/n", nil
	case o == nil || o.Status.Ended() && o.Status != broker.OperationSucceeded && wish.Begin && o.EndedAt.Before(wish.Again):
		next := &broker.Operation{ID: id, Operation: "demo.look@v1", Status: broker.OperationQueued, Attempt: 1, Plan: taskcatalog.OperationPlan{DeadlineSeconds: 600}}
		if o != nil {
			next.Attempt = o.Attempt + 1
		}
		w.ops[id], w.saw = next, append(w.saw, fmt.Sprintf("%s#%d", id, next.Attempt))
	case !o.Status.Ended() && ends != broker.OperationRunning:
		o.Status, o.EndedAt = ends, w.clock.Now()
		if ends == broker.OperationFailed {
			o.Code, o.Message = "step_failed", "task t-1 of node n failed"
		}
		w.saw = append(w.saw, id+" "+string(ends))
	}
	found := *w.ops[id]
	return &found, "", nil
}

func (w *world) Left(_ context.Context, a broker.Allocation, t broker.OperationTrigger) (l allocation.Left, err error) {
	l.Required = w.required && w.bound[t] != ""
	o := w.ops[broker.BoundOperationID(a.ID, t)]
	if o == nil {
		if l.Required {
			l.Failed = a.NodeIDs
		}
		return l, nil
	}
	found := *o
	l.Operation = &found
	for _, n := range a.NodeIDs {
		switch {
		case o.Status == broker.OperationSucceeded:
		case slices.Contains(w.lingers, n) || !o.Status.Ended():
			l.Running = append(l.Running, n)
		case slices.Contains(w.deaf, n):
			l.Silent = append(l.Silent, n)
		default:
			l.Failed = append(l.Failed, n)
		}
	}
	return l, nil
}

func (w *world) EndOthers(_ context.Context, a broker.Allocation) (map[string]string, error) {
	running := map[string]string{}
	for node, id := range w.others {
		if slices.Contains(a.NodeIDs, node) {
			running[node] = id
		}
	}
	return running, nil
}

func (w *world) GiveUp(_ context.Context, operationID, _ string) error {
	o := w.ops[operationID]
	switch {
	case o == nil:
		return broker.Errorf(broker.NotFound, "operation_not_found", "operation %s does not exist", operationID)
	case o.Status.Ended():
		return nil
	}
	o.Status, o.Code, o.EndedAt = broker.OperationCanceled, "canceled", w.clock.Now()
	w.saw = append(w.saw, operationID+" given up")
	return nil
}

func (w *world) HaveImage(_ context.Context, a broker.Allocation) (map[string]bool, error) {
	out := map[string]bool{}
	for _, n := range a.NodeIDs {
		out[n] = w.images[n] == a.Image
	}
	return out, nil
}

// Install begins a soft reset in the place of a reimage: this world has no MAAS.
func (w *world) Install(ctx context.Context, a broker.Allocation, nodeID string) (string, error) {
	switch {
	case w.full > 0:
		w.full--
		return "no place", nil
	case w.refuse == nodeID:
		return "", broker.Errorf(broker.Refused, "profile_disabled", "cannot reimage node %s", nodeID)
	}
	w.installs[nodeID] = a.Image
	return w.begin(ctx, a, nodeID, "image "+a.Image)
}

// begin begins a turnover of a node.
func (w *world) begin(ctx context.Context, a broker.Allocation, nodeID, cause string) (string, error) {
	policy := broker.DefaultPolicy()
	policy.AcceptSystemDisk, policy.DrainTimeoutSeconds = true, 300
	s, locks, err := turnover.New(w.book.Machine(nodeID).Node, turnover.Place{Policy: policy}, turnover.Request{
		Mode: turnover.SoftReset, Reason: cause, RequestedBy: "system", ForceRelease: true, Ends: []string{a.ID},
	})
	if err != nil {
		return "", err
	}
	_, err = w.engine.Start(ctx, chain.Start{
		Kind: turnover.SoftReset.Kind(), Site: "dc1", Subject: s.Hostname, State: s, Locks: locks, RequestedBy: "system",
	})
	if _, taken := errors.AsType[*chain.Locked](err); taken {
		return "another run", nil
	}
	return "", err
}

func (w *world) Replaced(_ context.Context, nodeID string, runIDs []string) (bool, error) {
	return w.replaces == nodeID && len(runIDs) > 0, nil
}

func (w *world) Resume(ctx context.Context, runID, reason string) error {
	w.resumed = append(w.resumed, runID)
	_, err := w.engine.Act(ctx, chain.Order{ID: runID, Actor: chain.Actor{Name: "system"}, Action: chain.Resume, Reason: reason, OnlyStopped: true})
	if _, no := errors.AsType[*chain.Refused](err); no {
		return nil
	}
	return err
}

// atEachCall plays a story twice for each call of the store: the call never reaches it, or its answer is lost. The
// story has at least so many calls; play returns their number.
func atEachCall(t *testing.T, least int, play func(t *testing.T, fate chaintest.Fate, at int) (calls int)) {
	t.Helper()
	calls := play(t, chaintest.Done, -1)
	if calls < least {
		t.Errorf("%d calls are too few for the story", calls)
	}
	for at := range calls {
		for _, fate := range []chaintest.Fate{chaintest.Lost, chaintest.Mute} {
			t.Run(fmt.Sprintf("call %d, fate %d", at, fate), func(t *testing.T) { play(t, fate, at) })
			if t.Failed() {
				return
			}
		}
	}
}
