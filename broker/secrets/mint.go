package secrets

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// mintLife is how long a node may use a pull token or a machine's token, at most.
const mintLife = 15 * time.Minute

// mintable has the task types that may have each credential. What a node sends never decides which
// credential its task may have.
var mintable = map[string]map[string]func(m *Minter, ctx context.Context, task broker.Task, ask broker.MintAsk) (broker.Minted, error){
	taskcatalog.CredentialOCIPull:          {"node.self_update": (*Minter).pullToken, operationRun: (*Minter).stepPullToken},
	taskcatalog.CredentialMAASMachineToken: {"node.hw_sync_reseed": (*Minter).machineToken},
	taskcatalog.CredentialTerminalSession:  {"terminal.open": (*Minter).terminalToken},
	taskcatalog.CredentialS3Read:           {operationRun: (*Minter).sourceCredential},
	taskcatalog.CredentialGCSRead:          {operationRun: (*Minter).sourceCredential},
	taskcatalog.CredentialHFToken:          {operationRun: (*Minter).sourceCredential},

	taskcatalog.CredentialClusterJoin:       {operationRun: (*Minter).clusterStep},
	taskcatalog.CredentialClusterMembership: {operationRun: (*Minter).clusterStep},
	taskcatalog.CredentialClusterLeave:      {operationRun: (*Minter).clusterStep},
}

// CredentialTypes lists the types of credentials that there are.
func CredentialTypes() []string { return slices.Sorted(maps.Keys(mintable)) }

const operationRun = "operation.run"

// Minter makes or reads the credentials of tasks.
type Minter struct {
	Keeper Keeper
	Now    func() time.Time
	// PullToken has a registry make the pull token of an update task.
	PullToken func(context.Context, broker.Task) (broker.Minted, error)
	// StepPullToken has a registry make the pull token of a step of an operation.
	StepPullToken func(ctx context.Context, task broker.Task, step string) (broker.Minted, error)
	// MachineToken returns the current MAAS token of the task's machine. If MachineToken is nil
	// or ok is false, the stored token is used.
	MachineToken func(context.Context, broker.Task) (secret []byte, ok bool)
	// TerminalToken makes the token with which a task's terminal joins its relay, for the holder
	// of the key with that digest.
	TerminalToken func(ctx context.Context, task broker.Task, keyDigest string) (broker.Minted, error)
	// SourceCredential makes the credential of a step of an operation, with which the node pulls
	// artifacts from a bucket or a repository.
	SourceCredential func(ctx context.Context, task broker.Task, credentialType, step string) (broker.Minted, error)
	// ClusterStep answers a step of an operation with what a node joins a cluster, or with what the
	// cluster says of the node.
	ClusterStep func(ctx context.Context, task broker.Task, credentialType, step string) (broker.Minted, error)
}

// Mint makes or reads the credential that a task's node asks for. Codes: credential_type_unknown,
// credential_refused, those of Keeper.Get, and of the functions of the Minter.
func (m *Minter) Mint(ctx context.Context, task broker.Task, ask broker.MintAsk) (broker.Minted, error) {
	types, ok := mintable[ask.Type]
	if !ok {
		return broker.Minted{}, broker.Errorf(broker.Forbidden, "credential_type_unknown",
			"cannot mint credential %q for task %s: unknown type of credential", taskcatalog.Clean(ask.Type, 64), task.ID)
	}
	mint, ok := types[task.Type]
	if !ok || (ask.Step != "") != (task.Type == operationRun) {
		return broker.Minted{}, broker.Errorf(broker.Forbidden, "credential_refused",
			"cannot mint credential %s for task %s: a %s may not have it", ask.Type, task.ID, task.Type)
	}
	return mint(m, ctx, task, ask)
}

// pullToken returns a token from the registry.
func (m *Minter) pullToken(ctx context.Context, task broker.Task, _ broker.MintAsk) (broker.Minted, error) {
	return m.within(m.PullToken(ctx, task))
}

// stepPullToken returns a token from the registry.
func (m *Minter) stepPullToken(ctx context.Context, task broker.Task, ask broker.MintAsk) (broker.Minted, error) {
	return m.within(m.StepPullToken(ctx, task, ask.Step))
}

// sourceCredential returns the credential of a step.
func (m *Minter) sourceCredential(ctx context.Context, task broker.Task, ask broker.MintAsk) (broker.Minted, error) {
	return m.within(m.SourceCredential(ctx, task, ask.Type, ask.Step))
}

// clusterStep returns the answer to a step about a cluster.
func (m *Minter) clusterStep(ctx context.Context, task broker.Task, ask broker.MintAsk) (broker.Minted, error) {
	return m.within(m.ClusterStep(ctx, task, ask.Type, ask.Step))
}

// within lets a credential expire when its service says, or after mintLife if that is earlier.
func (m *Minter) within(made broker.Minted, err error) (broker.Minted, error) {
	if last := m.Now().Add(mintLife); made.Expires.After(last) {
		made.Expires = last
	}
	return made, err
}

// machineToken returns the MAAS token of the task's machine: the current token, else the stored
// token.
func (m *Minter) machineToken(ctx context.Context, task broker.Task, _ broker.MintAsk) (broker.Minted, error) {
	if m.MachineToken != nil {
		if fresh, ok := m.MachineToken(ctx, task); ok {
			return broker.Minted{Secret: string(fresh), Expires: m.Now().Add(mintLife)}, nil
		}
	}
	value, err := m.Keeper.Get(ctx, nodeToken(task.NodeID))
	return broker.Minted{Secret: string(value), Expires: m.Now().Add(mintLife)}, err
}

func (m *Minter) terminalToken(ctx context.Context, task broker.Task, ask broker.MintAsk) (broker.Minted, error) {
	return m.TerminalToken(ctx, task, ask.KeyDigest)
}
