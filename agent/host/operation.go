package host

import (
	"errors"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// ErrStopping is the cause of a task context that ends because the agent is asked to stop.
var ErrStopping = errors.New("the agent was stopped")

// ErrUnfinished says that a task has no result yet: the agent's next process resumes the task.
var ErrUnfinished = errors.New("the task goes on in the agent's next process")

// ErrStuck says that a part of a task goes on although its time is over. Only the end of the agent's
// process ends that part; the next process resumes the task.
var ErrStuck = errors.New("a part of the task does not stop")

// Operations is the journal of operations: what a node remembers of each over crashes and tasks.
type Operations interface {
	// Operation returns the record of an operation; false: there is none.
	Operation(id string) (OperationRecord, bool, error)
	// PutOperation replaces the record of an operation. It returns when the record is on the disk.
	PutOperation(id string, r OperationRecord) error
}

// OperationRecord is what a node remembers of one operation. It never has a secret.
type OperationRecord struct {
	TaskID string         `json:"task_id"` // of the operation's last task, which the rows are of
	Rows   []OperationRow `json:"rows,omitempty"`
	// Done has the steps that are proven done, by id, whichever task did them.
	Done map[string]StepDone `json:"done,omitempty"`
	// Checkpoints are of steps that are not done, by id.
	Checkpoints map[string][]byte `json:"checkpoints,omitempty"`
}

// OperationRow is one attempt of one step.
type OperationRow struct {
	taskcatalog.OperationStep
	StartedAt time.Time `json:"started_at,omitzero"`
	// Open: the attempt has begun, and its end is not recorded.
	Open bool `json:"open,omitempty"`
}

// StepDone is a step that is proven done.
type StepDone struct {
	Digest string                    `json:"digest"` // of the step with the values of its arguments
	TaskID string                    `json:"task_id"`
	Row    taskcatalog.OperationStep `json:"row"`
}
