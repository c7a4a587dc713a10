package allocation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/taskcatalog"
)

// provisionUsers makes the account on all nodes at once, has each node prove that the tenant can log
// in, and waits for all. The store judges each node again in the transaction that queues its task.
func (c *Chains) provisionUsers(ctx context.Context, r *run, a broker.Allocation) error {
	if err := c.begin(ctx, r); err != nil {
		return err
	}
	keys, err := c.Records.Keys(ctx, a)
	if err != nil {
		return failed(err)
	}
	addresses, err := c.Records.Addresses(ctx, a)
	if err != nil {
		return failed(err)
	}
	var waits, wrong error
	for _, id := range r.State.NodeIDs {
		if slices.Contains(r.State.Ready, id) {
			continue
		}
		switch k, err := c.letIn(ctx, r, a, id, addresses[id], keys); {
		case isFailure(err):
			wrong = errors.Join(wrong, err)
			if k.ID != "" && k.Status.Ended() && !slices.Contains(r.State.Unfit, id) {
				r.State.Unfit = append(r.State.Unfit, id)
			}
			r.State.blame(k, err)
		case err != nil:
			waits = err
		default:
			r.State.Ready = append(r.State.Ready, id)
			r.State.clear(id)
		}
	}
	switch {
	case wrong != nil:
		return failed(wrong)
	case waits != nil:
		return waits
	}
	text := fmt.Sprintf("the tenant can log in to %d nodes", len(r.State.Ready)-len(r.State.Unproven))
	if n := len(r.State.Unproven); n > 0 {
		text += fmt.Sprintf(", and has accounts on %d nodes whose agents cannot prove the login (roll out the agent)", n)
	}
	r.Note(map[string]any{"nodes": len(r.State.Ready), "keys": len(keys), "unproven": r.State.Unproven}, "%s", text)
	return nil
}

// letIn makes the account on a node, and has the node prove the login, at the address of MAAS if that is
// the node's own. The tenant is shown the address of the proof. The task is the last one of the node. A broker serves agents of earlier
// releases: a node whose agent does not know the proof is given without one, and the tenant sees no host key of it.
func (c *Chains) letIn(ctx context.Context, r *run, a broker.Allocation, nodeID, address string, keys []string) (broker.Task, error) {
	made, err := c.task(ctx, r, nodeID, "allocation.provision_user", taskcatalog.ProvisionUserParams{
		AllocationID: a.ID, Username: broker.AllocationAccount, SSHKeys: keys, Tenant: r.State.Tenant,
	})
	if err != nil {
		return made, err
	}
	k, err := c.task(ctx, r, nodeID, "allocation.check_login", taskcatalog.CheckLoginParams{
		AllocationID: a.ID, Username: broker.AllocationAccount, SSHKeys: keys, Address: address,
	})
	f, is := errors.AsType[*chain.Failure](err)
	if is && k.ID == "" && f.Code == "task_type_unsupported" {
		if !slices.Contains(r.State.Unproven, nodeID) {
			r.State.Unproven = append(r.State.Unproven, nodeID)
		}
		return made, nil
	}
	var proof taskcatalog.CheckLoginResult
	switch {
	case is && f.Code == string(taskcatalog.CodeKeysRefused):
		return k, c.keysRefused(ctx, a, k, f)
	case err != nil:
		return k, err
	}
	if err := json.Unmarshal(k.Result, &proof); err != nil {
		return k, failed(err)
	}
	if err := c.Records.NoteLogin(ctx, a, nodeID, proof); err != nil {
		return k, failed(err)
	}
	return k, failed(c.Records.NoteRefusedKeys(ctx, a, nodeID, proof.RefusedKeys))
}

// keysRefused is the failure of a node whose SSH server accepts none of the tenant's keys. If a login with
// one of them was proven at the site before, the node is at fault, else the keys.
func (c *Chains) keysRefused(ctx context.Context, a broker.Allocation, k broker.Task, f *chain.Failure) error {
	var refused taskcatalog.CheckLoginResult
	if err := json.Unmarshal(k.Result, &refused); err != nil {
		return f // a node that does not say which keys
	}
	if err := c.Records.NoteRefusedKeys(ctx, a, k.NodeID, refused.RefusedKeys); err != nil {
		return failed(err)
	}
	accepted, err := c.Records.KeyAcceptedBefore(ctx, a)
	if err != nil || accepted {
		return cmp.Or(failed(err), error(f))
	}
	own := *f
	own.Code = CodeKeysRefused
	return &own
}

// notOfNode are codes of failed tasks for which the node is not at fault: the broker's request, its clock
// or its keys, the tenant's keys, or a person who enrolled the node again.
var notOfNode = []string{
	string(taskcatalog.CodeBadParams), string(taskcatalog.CodeCanceled), string(taskcatalog.CodeNodeReenrolled), CodeKeysRefused,
	string(taskcatalog.CodeUnknownKey), string(taskcatalog.CodeBadSignature), string(taskcatalog.CodeWrongEpoch),
	string(taskcatalog.CodeNotYetValid), string(taskcatalog.CodeTaskExpired), string(taskcatalog.CodeUnknownType),
	string(taskcatalog.CodeUnknownVersion),
}

// blame notes the failure of a node's last task, if the node is at fault: its agent failed or refused the
// task, did not answer, or proved a login that is none. What the broker refused to ask, and what a person
// cancelled, is no fault of the node. The failure of an earlier task counts no more.
func (s *Work) blame(k broker.Task, err error) {
	f, is := errors.AsType[*chain.Failure](err)
	if !is || k.ID == "" {
		return
	}
	s.clear(k.NodeID)
	switch {
	case k.Status == broker.TaskCanceled, slices.Contains(notOfNode, f.Code):
		return
	case k.Status == broker.TaskSucceeded && f.Code != CodeLoginUnproven:
		return
	}
	s.Faults = append(s.Faults, broker.ProvisionFault{NodeID: k.NodeID, Code: f.Code, Message: taskcatalog.Clean(f.Message, 500)})
}

// clear forgets the failure of a node that is ready.
func (s *Work) clear(nodeID string) {
	s.Faults = slices.DeleteFunc(s.Faults, func(f broker.ProvisionFault) bool { return f.NodeID == nodeID })
}

// begin leads an allocation to provisioning, from where it can become active or fail.
func (c *Chains) begin(ctx context.Context, r *run) error {
	return c.reach(ctx, r, Change{To: broker.AllocationProvisioning, Reason: "the nodes are made ready"})
}

// activate makes the allocation active, if each node is still the tenant's: it may have been quarantined, released in
// MAAS, enrolled again or turned over while the run waited. A node that is offline is waited for, as for a task. An
// allocation without one of its nodes fails.
func (c *Chains) activate(ctx context.Context, r *run, _ broker.Allocation) error {
	err := c.reach(ctx, r, Change{To: broker.AllocationActive, Reason: "the nodes are ready", Provisioned: r.State.NodeIDs})
	f, is := errors.AsType[*chain.Failure](err)
	if !is || f.Code != "node_taken" && f.Code != "node_offline" {
		return err
	}
	if f.Code == "node_offline" {
		switch waited, err := r.Since(ctx, r.EnteredAt); {
		case err != nil:
			return failed(err)
		case waited < silence:
			return chain.Again(forContact, "%s", f.Message)
		}
	}
	return c.fail(ctx, r, Change{Code: CodeNodeNotReady, Reason: f.Code + ": " + f.Message})
}

// failAllocation ends an allocation that could not be provisioned. Its nodes are given back later: a
// turnover refuses the node of a tenant.
func (c *Chains) failAllocation(ctx context.Context, r *run, _ broker.Allocation) error {
	r.State.keepFailure(r)
	code := CodeNodeNotReady
	if slices.Contains([]string{CodeKeyNotFound, CodeKeysRefused}, r.State.FailureCode) {
		code = r.State.FailureCode
	}
	return c.fail(ctx, r, Change{
		Code: code, Reason: r.State.FailureCode + ": " + r.State.FailureMessage,
		Provisioned: r.State.Ready, Faults: r.State.Faults, HoldAfter: r.State.HoldAfter,
	})
}

// fail ends an allocation that is not active yet.
func (c *Chains) fail(ctx context.Context, r *run, change Change) error {
	for _, id := range r.State.NodeIDs {
		if _, err := c.Records.Withdraw(ctx, id, r.ID, change.Reason); err != nil {
			return failed(err)
		}
	}
	if err := c.begin(ctx, r); err != nil { // only an allocation in provisioning can fail
		return err
	}
	change.To = broker.AllocationFailed
	return c.reach(ctx, r, change)
}

// cancelProvision ends an allocation whose run is cancelled, and gives its nodes back. An allocation
// that is active stays so.
func (c *Chains) cancelProvision(ctx context.Context, r *run) error {
	end := func(ctx context.Context, r *run, _ broker.Allocation) error {
		return c.fail(ctx, r, Change{Code: CodeProvisioningCancelled, Reason: "run " + r.ID + " was cancelled"})
	}
	if err := c.in(unprovisioned, end)(ctx, r); err != nil {
		return err
	}
	return c.in(unmade, c.giveBack)(ctx, r)
}

// giveBack has each node of a failed allocation turned over that may have the account, or whose agent
// could not make it. The turnovers are not waited for.
func (c *Chains) giveBack(ctx context.Context, r *run, a broker.Allocation) error {
	if _, err := c.settled(ctx, r, a, broker.TriggerBegin); err != nil {
		return err
	}
	holders, err := c.holders(ctx, r)
	if err != nil {
		return err
	}
	proven, err := c.Records.Proven(ctx, a)
	if err != nil {
		return failed(err)
	}
	var waits, wrong error
	for _, id := range r.State.NodeIDs {
		if _, clean := proven[id]; clean { // turned over since, and perhaps another tenant's
			continue
		}
		switch err := c.giveNodeBack(ctx, r, a, id, holders[id]); {
		case isFailure(err):
			wrong = errors.Join(wrong, err)
		case err != nil:
			waits = err
		}
	}
	switch {
	case wrong != nil: // the other nodes are given back although one cannot be
		return failed(wrong)
	case waits != nil:
		return waits
	}
	r.Note(map[string]any{"code": a.Code, "turnovers": len(r.State.Begun)}, "allocation %s failed (%s); %d turnovers were begun", a.ID,
		a.Code, len(r.State.Begun))
	return nil
}

// takesNode is the first stage of a turnover. A turnover may end in it without having touched the node: it
// finds the account's allocation live, and a person cancels it.
const takesNode = "disable_node"

func (c *Chains) giveNodeBack(ctx context.Context, r *run, a broker.Allocation, nodeID string, holder *chain.Record) error {
	account, err := c.Records.Account(ctx, a, nodeID)
	if err != nil {
		return failed(err)
	}
	// A node whose agent refused the account has no reason against it, and would be the next tenant's.
	unfit := slices.Contains(r.State.Unfit, nodeID) && !slices.Contains(r.State.Ready, nodeID)
	if account == NoAccount && !unfit || account == NodeGone || slices.Contains(r.State.Begun, nodeID) {
		return nil
	}
	switch {
	case holder != nil && turnsOver(holder) && holder.Stage != takesNode:
		return nil
	case holder != nil:
		return chain.Again(soon, "run %s has node %s, and is %s", holder.ID, nodeID, holder.Status)
	}
	return c.beginTurnover(ctx, r, a, nodeID, "allocation "+a.ID+" failed")
}

// beginTurnover begins the turnover of a node, or waits for a place of the site, or for the run that was faster.
func (c *Chains) beginTurnover(ctx context.Context, r *run, a broker.Allocation, nodeID, cause string) error {
	waits, err := c.Records.TurnOver(ctx, a, nodeID, cause, r.State.unended(nodeID, a))
	switch {
	case err != nil:
		return failed(err)
	case waits != "":
		return chain.Again(forPlace, "node %s: %s", nodeID, waits)
	}
	r.State.Begun = append(r.State.Begun, nodeID)
	return nil
}

// turnsOver reports whether a run leads its node to a certificate, or out of the fleet.
func turnsOver(r *chain.Record) bool {
	return broker.RunKindOf(r.Kind).TurnsOver && r.Kind != turnover.StorageCleanup.Kind()
}
