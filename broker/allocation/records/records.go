package records

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/allocation"
	"github.com/hostler/hostler/broker/chain"
	operationrecords "github.com/hostler/hostler/broker/operation/records"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/broker/turnover"
	turnoverrecords "github.com/hostler/hostler/broker/turnover/records"
	"github.com/hostler/hostler/taskcatalog"
)

// Records is allocation.Records over the broker's own parts.
type Records struct {
	DB     *store.DB
	Queue  *taskqueue.Queue
	Starts *turnoverrecords.Starts // its Runs act on turnovers, and begin operations
	// Operations are those that run by themselves when an allocation begins or ends.
	Operations *operationrecords.Records
}

var _ allocation.Records = (*Records)(nil)

// Request implements taskstage.Tasks.
func (r *Records) Request(ctx context.Context, t taskstage.Task) (broker.Task, error) {
	return r.Queue.Request(ctx, t)
}

// Withdraw implements taskstage.Tasks.
func (r *Records) Withdraw(ctx context.Context, nodeID, runID, reason string) ([]broker.Task, error) {
	return r.Queue.Withdraw(ctx, nodeID, runID, reason)
}

// Allocation implements allocation.Records.
func (r *Records) Allocation(ctx context.Context, id string) (broker.Allocation, error) {
	return r.DB.Allocation(ctx, id)
}

// Reach implements allocation.Records.
func (r *Records) Reach(ctx context.Context, id string, c allocation.Change) error {
	var goesOn time.Time
	if c.Code == allocation.CodeEndOperation {
		goesOn = r.goesOn(ctx, id)
	}
	_, err := r.DB.TransitionAllocation(ctx, broker.System, id, store.AllocationChange{
		To: c.To, By: broker.AllocationWorker, Code: c.Code, Reason: taskcatalog.Clean(c.Reason, 500), CertificateIDs: c.CertificateIDs,
		GoesOnAt: goesOn, CorrelationID: c.RunID, Provisioned: c.Provisioned, Faults: c.Faults, HoldAfter: c.HoldAfter,
	})
	return err
}

// Keys implements allocation.Records.
func (r *Records) Keys(ctx context.Context, a broker.Allocation) ([]string, error) {
	return r.DB.AllocationKeys(ctx, a)
}

// Addresses implements allocation.Records.
func (r *Records) Addresses(ctx context.Context, a broker.Allocation) (map[string]string, error) {
	all, err := r.DB.AllocationLogins(ctx, []string{a.ID})
	out := map[string]string{}
	for _, l := range all[a.ID] {
		if l.Address != "" {
			out[l.NodeID] = l.Address
		}
	}
	return out, err
}

// NoteLogin implements allocation.Records. What a node reports is refused where it is no address and no
// key.
func (r *Records) NoteLogin(ctx context.Context, a broker.Allocation, nodeID string, proof taskcatalog.CheckLoginResult) error {
	address, err := netip.ParseAddr(proof.Address)
	if err != nil {
		return broker.Errorf(broker.Refused, allocation.CodeLoginUnproven, "node %s proved a login at %q, which is no address (look at its agent)", nodeID,
			taskcatalog.Clean(proof.Address, 64))
	}
	key, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(proof.HostKey))
	if err != nil || len(rest) > 0 {
		return broker.Errorf(broker.Refused, allocation.CodeLoginUnproven, "node %s proved a login by a host key that cannot be read (look at its agent)", nodeID)
	}
	if len(proof.KeyTypes) == 0 {
		return broker.Errorf(broker.Refused, allocation.CodeLoginUnproven, "node %s proved a login by no key (look at its agent)", nodeID)
	}
	return r.DB.NoteLogin(ctx, a.ID, nodeID, address.Unmap().String(), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))))
}

// mostRefused bounds the fingerprints that a node may report: an account has at most 64 keys.
const mostRefused = 64

// NoteRefusedKeys implements allocation.Records.
func (r *Records) NoteRefusedKeys(ctx context.Context, a broker.Allocation, nodeID string, fingerprints []string) error {
	var kept []string
	for _, f := range fingerprints[:min(len(fingerprints), mostRefused)] {
		kept = append(kept, taskcatalog.Clean(f, 64))
	}
	return r.DB.NoteRefusedKeys(ctx, a.ID, nodeID, kept)
}

// KeyAcceptedBefore implements allocation.Records.
func (r *Records) KeyAcceptedBefore(ctx context.Context, a broker.Allocation) (bool, error) {
	return r.DB.KeyAcceptedBefore(ctx, a)
}

// Account implements allocation.Records.
func (r *Records) Account(ctx context.Context, a broker.Allocation, nodeID string) (allocation.Account, error) {
	n, err := r.DB.Node(ctx, nodeID)
	if err != nil || n.Status == broker.Deleted {
		return allocation.NodeGone, err
	}
	switch o, err := r.DB.OccupantOf(ctx, a.ID, nodeID); {
	case err != nil || o == nil:
		return allocation.NoAccount, err
	case o.Live():
		return allocation.AccountLives, nil
	}
	return allocation.AccountEnded, nil
}

// Proven implements allocation.Records.
func (r *Records) Proven(ctx context.Context, a broker.Allocation) (map[string]string, error) {
	return r.DB.ReleaseCertificates(ctx, a)
}

// Holder implements allocation.Records.
func (r *Records) Holder(ctx context.Context, nodeID string) (*chain.Record, error) {
	id, _, err := r.DB.RunOfNode(ctx, nodeID)
	if err != nil || id == "" {
		return nil, err
	}
	run, err := r.DB.Run(ctx, id)
	return &run, err
}

// TurnOver implements allocation.Records.
func (r *Records) TurnOver(ctx context.Context, a broker.Allocation, nodeID, cause, reimage string) (waits string, err error) {
	n, err := r.DB.Node(ctx, nodeID)
	if err != nil {
		return "", err
	}
	at, err := r.Starts.Place(ctx, n, "")
	if err != nil {
		return "", err
	}
	tenants, err := r.DB.Occupants(ctx, n.ID)
	if err != nil {
		return "", err
	}
	past, err := r.Starts.Past(ctx, n, at.Policy.ModePolicy, tenants)
	if err != nil {
		return "", err
	}
	past.Unended = cmp.Or(reimage, past.Unended)
	// Where no certificate can meet the policy, the turnover fails and says why.
	c := turnover.Choose(n, at, tenants, past)
	state, locks, err := turnover.New(n, at, turnover.Request{
		Mode: c.Mode, Erase: c.Erase, ModeBecause: c.Because, Reason: taskcatalog.Clean(c.Explain(cause), 500),
		RequestedBy: broker.System.Name, ForceRelease: true,
		Ends: []string{a.ID},
	})
	if err != nil {
		return "", err
	}
	start := startFor(a, n, state, locks)
	start.ID = turnover.ReleaseOf(n.ID, r.DB.Now())
	release := &a
	if a.Status != broker.AllocationReleasing { // its tenant never came: those who wait for a release go first
		release = nil
	}
	return r.Starts.StartInPlace(ctx, start, at.Policy.AutomaticTurnoversAtOnce, release)
}

func startFor(a broker.Allocation, n broker.Node, state turnover.Turnover, locks []string) chain.Start {
	return turnoverrecords.NewStart(n, state, locks, turnoverrecords.Requester{Name: broker.System.Name, CorrelationID: a.ID})
}

// HaveImage implements allocation.Records.
func (r *Records) HaveImage(ctx context.Context, a broker.Allocation) (map[string]bool, error) {
	out := map[string]bool{}
	for _, id := range a.NodeIDs {
		i, err := r.DB.NodeImage(ctx, id)
		if err != nil {
			return nil, err
		}
		out[id] = i.Name != "" && i.Name == broker.ImageName(a.Image)
	}
	return out, nil
}

// Install implements allocation.Records. The allocation keeps its claim, and nobody has a user on the node: the
// turnover begins although the allocation is live. Releases go first.
func (r *Records) Install(ctx context.Context, a broker.Allocation, nodeID string) (waits string, err error) {
	n, err := r.DB.Node(ctx, nodeID)
	if err != nil {
		return "", err
	}
	at, err := r.Starts.Place(ctx, n, "")
	if err != nil {
		return "", err
	}
	erase := turnover.Choose(n, at, nil, turnover.Past{}).Erase
	state, locks, err := turnover.New(n, at, turnover.Request{
		Mode: turnover.Reimage, Erase: erase, Image: a.Image, Reason: "allocation " + a.ID + " asks for image " + a.Image,
		RequestedBy: broker.System.Name, From: broker.Active, ForceRelease: true, Ends: []string{a.ID},
	})
	if err != nil {
		return "", err
	}
	start := startFor(a, n, state, locks)
	start.ID = turnover.ImageOf(n.ID, r.DB.Now())
	return r.Starts.StartInPlace(ctx, start, at.Policy.AutomaticTurnoversAtOnce, nil)
}

// Replaced implements allocation.Records.
func (r *Records) Replaced(ctx context.Context, nodeID string, runIDs []string) (bool, error) {
	for _, id := range runIDs {
		run, err := r.DB.Run(ctx, id)
		if err != nil {
			return false, err
		}
		var state turnover.Turnover
		if broker.RunKindOf(run.Kind).TurnsOver && json.Unmarshal(run.State, &state) == nil && state.NodeID == nodeID {
			if h, err := r.Starts.Handover(ctx, run); err != nil || h.Due && h.Run == "" {
				return h.Due, err
			}
		}
	}
	return false, nil
}

// Resume implements allocation.Records.
func (r *Records) Resume(ctx context.Context, runID, reason string) error {
	_, err := r.Starts.Runs.Act(ctx, chain.Order{
		ID: runID, Actor: chain.Actor{Name: broker.System.Name}, Action: chain.Resume, Reason: reason, OnlyStopped: true,
	})
	if _, no := errors.AsType[*chain.Refused](err); no {
		return nil // somebody was faster, and their action stands
	}
	return err
}
