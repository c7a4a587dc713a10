package plan

import (
	"bytes"

	"github.com/hostler/hostler/taskcatalog"
)

// The bounds of checkpoints, in bytes: of one step, and of all steps of an operation.
const (
	maxCheckpoint  = 64 << 10
	maxCheckpoints = 512 << 10
)

// checkpoint is what a step keeps of its progress. It is a part of the operation's record, and ends
// with the step's success, unless the kind keeps it (steps.Kind.Keeps).
type checkpoint struct {
	o    *Operation
	step string
}

func (c *checkpoint) Load() ([]byte, error) {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	return bytes.Clone(c.o.record.Checkpoints[c.step]), nil
}

func (c *checkpoint) Save(state []byte) error {
	if c.o.leaks(state) {
		return taskcatalog.Errorf(taskcatalog.CodeHandlerFailed, "the checkpoint of step %s has a secret, and is not written", c.step)
	}
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	size := len(state)
	for step, other := range c.o.record.Checkpoints {
		if step != c.step {
			size += len(other)
		}
	}
	if len(state) > maxCheckpoint || size > maxCheckpoints {
		return taskcatalog.Errorf(taskcatalog.CodeTooLarge, "the checkpoint of step %s is larger than %d bytes, or all are than %d",
			c.step, maxCheckpoint, maxCheckpoints)
	}
	c.o.record.Checkpoints[c.step] = bytes.Clone(state)
	return c.o.save()
}
