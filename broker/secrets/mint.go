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
	path     func(broker.Task) string
}{
	"oci_pull":                             {taskType: "node.self_update", path: func(broker.Task) string { return "registry/oci-pull" }},
	taskcatalog.CredentialMAASMachineToken: {taskType: "node.hw_sync_reseed", path: ofNode},
}

// Minter gives secrets to the tasks that may have them.
type Minter struct {
	Keeper Keeper
	Now    func() time.Time
	// MachineToken is asked first for a MAAS machine's own token; false, or nil:
	// what is kept is given.
	MachineToken func(context.Context, broker.Task) (secret []byte, ok bool)
}

// Mint reads the secret of a credential type for a task. Codes:
// credential_type_unknown, credential_refused, and those of Keeper.Get.
func (m *Minter) Mint(ctx context.Context, task broker.Task, credentialType string) (secret string, expires time.Time, err error) {
	row, ok := mintable[credentialType]
	if !ok {
		return "", time.Time{}, broker.Errorf(broker.Forbidden, "credential_type_unknown", "cannot mint credential %q for task %s: there is none of that type", taskcatalog.Clean(credentialType, 64), task.ID)
	}
	if task.Type != row.taskType {
		return "", time.Time{}, broker.Errorf(broker.Forbidden, "credential_refused", "cannot mint credential %s for task %s: a %s may not have it", credentialType, task.ID, task.Type)
	}
	if credentialType == taskcatalog.CredentialMAASMachineToken && m.MachineToken != nil {
		if fresh, ok := m.MachineToken(ctx, task); ok {
			return string(fresh), m.Now().Add(mintLife), nil
		}
	}
	value, err := m.Keeper.Get(ctx, row.path(task))
	return string(value), m.Now().Add(mintLife), err
}
