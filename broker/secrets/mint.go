package secrets

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// mintLife is how long a node may use what it was given.
const mintLife = 15 * time.Minute

// mintable is every credential that a task may have. Which one follows from the
// task's type and from this table, never from what the task's params say.
var mintable = map[string]struct {
	taskType string
	mint     func(m *Minter, ctx context.Context, task broker.Task, keyDigest string) (broker.Minted, error)
}{
	taskcatalog.CredentialOCIPull:          {taskType: "node.self_update", mint: (*Minter).pullToken},
	taskcatalog.CredentialMAASMachineToken: {taskType: "node.hw_sync_reseed", mint: (*Minter).machineToken},
	taskcatalog.CredentialTerminalSession:  {taskType: "terminal.open", mint: (*Minter).terminalToken},
}

// Minter gives secrets to the tasks that may have them.
type Minter struct {
	Keeper Keeper
	Now    func() time.Time
	// PullToken has a registry make one for an update.
	PullToken func(context.Context, broker.Task) (broker.Minted, error)
	// MachineToken is asked first for a MAAS machine's own token; false, or nil:
	// what is kept is given.
	MachineToken func(context.Context, broker.Task) (secret []byte, ok bool)
	// TerminalToken makes the one with which a task's terminal joins its relay, for who
	// holds the key of that digest.
	TerminalToken func(ctx context.Context, task broker.Task, keyDigest string) (broker.Minted, error)
}

// Mint makes or reads the secret of a credential type for a task, whose node shows the key
// of that digest. Codes: credential_type_unknown, credential_refused, those of Keeper.Get,
// of PullToken and of TerminalToken.
func (m *Minter) Mint(ctx context.Context, task broker.Task, credentialType, keyDigest string) (broker.Minted, error) {
	row, ok := mintable[credentialType]
	if !ok {
		return broker.Minted{}, broker.Errorf(broker.Forbidden, "credential_type_unknown", "cannot mint credential %q for task %s: there is none of that type", taskcatalog.Clean(credentialType, 64), task.ID)
	}
	if task.Type != row.taskType {
		return broker.Minted{}, broker.Errorf(broker.Forbidden, "credential_refused", "cannot mint credential %s for task %s: a %s may not have it", credentialType, task.ID, task.Type)
	}
	return row.mint(m, ctx, task, keyDigest)
}

// pullToken is one that a registry has made: it ends when that says, at the latest.
func (m *Minter) pullToken(ctx context.Context, task broker.Task, _ string) (broker.Minted, error) {
	made, err := m.PullToken(ctx, task)
	if last := m.Now().Add(mintLife); made.Expires.After(last) {
		made.Expires = last
	}
	return made, err
}

// machineToken is the one of the task's own machine.
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
