package secrets

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// mintLife is how long a node may use a pull token or a machine's token, at most.
const mintLife = 15 * time.Minute

// mintable has the one task type that may have each credential. The task's params never decide
// which credential the task may have.
var mintable = map[string]struct {
	taskType string
	mint     func(m *Minter, ctx context.Context, task broker.Task, keyDigest string) (broker.Minted, error)
}{
	taskcatalog.CredentialOCIPull:          {taskType: "node.self_update", mint: (*Minter).pullToken},
	taskcatalog.CredentialMAASMachineToken: {taskType: "node.hw_sync_reseed", mint: (*Minter).machineToken},
	taskcatalog.CredentialTerminalSession:  {taskType: "terminal.open", mint: (*Minter).terminalToken},
}

// Minter makes or reads the credentials of tasks.
type Minter struct {
	Keeper Keeper
	Now    func() time.Time
	// PullToken has a registry make the pull token of an update task.
	PullToken func(context.Context, broker.Task) (broker.Minted, error)
	// MachineToken returns the current MAAS token of the task's machine. If MachineToken is nil
	// or ok is false, the stored token is used.
	MachineToken func(context.Context, broker.Task) (secret []byte, ok bool)
	// TerminalToken makes the token with which a task's terminal joins its relay, for the holder
	// of the key with that digest.
	TerminalToken func(ctx context.Context, task broker.Task, keyDigest string) (broker.Minted, error)
}

// Mint makes or reads the credential of a type for a task. The task's node has shown the key with
// that digest. Codes: credential_type_unknown, credential_refused, those of Keeper.Get, of
// PullToken and of TerminalToken.
func (m *Minter) Mint(ctx context.Context, task broker.Task, credentialType, keyDigest string) (broker.Minted, error) {
	row, ok := mintable[credentialType]
	if !ok {
		return broker.Minted{}, broker.Errorf(broker.Forbidden, "credential_type_unknown",
			"cannot mint credential %q for task %s: unknown type of credential", taskcatalog.Clean(credentialType, 64), task.ID)
	}
	if task.Type != row.taskType {
		return broker.Minted{}, broker.Errorf(broker.Forbidden, "credential_refused",
			"cannot mint credential %s for task %s: a %s may not have it", credentialType, task.ID, task.Type)
	}
	return row.mint(m, ctx, task, keyDigest)
}

// pullToken returns a token from the registry. The token expires when the registry says, or after
// mintLife if that is earlier.
func (m *Minter) pullToken(ctx context.Context, task broker.Task, _ string) (broker.Minted, error) {
	made, err := m.PullToken(ctx, task)
	if last := m.Now().Add(mintLife); made.Expires.After(last) {
		made.Expires = last
	}
	return made, err
}

// machineToken returns the MAAS token of the task's machine: the current token, else the stored
// token.
func (m *Minter) machineToken(ctx context.Context, task broker.Task, _ string) (broker.Minted, error) {
	if m.MachineToken != nil {
		if fresh, ok := m.MachineToken(ctx, task); ok {
			return broker.Minted{Secret: string(fresh), Expires: m.Now().Add(mintLife)}, nil
		}
	}
	value, err := m.Keeper.Get(ctx, nodeToken(task.NodeID))
	return broker.Minted{Secret: string(value), Expires: m.Now().Add(mintLife)}, err
}

func (m *Minter) terminalToken(ctx context.Context, task broker.Task, keyDigest string) (broker.Minted, error) {
	return m.TerminalToken(ctx, task, keyDigest)
}
