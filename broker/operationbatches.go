package broker

// OperationBatches says how an operation goes from node to node: the canary first, then Size nodes at a time, in
// the order of their places. A batch begins when the tasks of the one before have ended well enough. The zero
// value is one batch of all nodes.
type OperationBatches struct {
	Canary      int // nodes of the first batch; 0: no canary
	Size        int // nodes of each further batch; 0: all others
	MaxFailures int // this number of failed nodes stops the operation; 0: the first. A failed canary always does
}

// MostOperationNodes bounds the nodes of an operation.
const MostOperationNodes = 1000

// OperationBatchStopped is the code of an operation that left nodes untouched, because too many had failed.
const OperationBatchStopped = "batch_stopped"

// Of is the batch of the node at a place, both from 0.
func (b OperationBatches) Of(place int) int {
	after := place - b.Canary
	switch {
	case after < 0:
		return 0
	case b.Size > 0:
		after /= b.Size
	default:
		after = 0
	}
	if b.Canary > 0 {
		after++
	}
	return after
}

// Count is how many batches a number of nodes has.
func (b OperationBatches) Count(nodes int) int { return b.Of(max(nodes, 1)-1) + 1 }

// Stops reports whether no batch begins after a batch, when a number of nodes has failed.
func (b OperationBatches) Stops(batch, failed int) bool {
	return failed >= max(b.MaxFailures, 1) || failed > 0 && batch == 0 && b.Canary > 0
}

// HeldBack reports whether an attempt began and has ended before its last batch: the nodes of later batches got no task.
func (o Operation) HeldBack() bool {
	return o.Status.Ended() && !o.StartedAt.IsZero() && o.Batch < o.BatchCount()
}

// BatchOperation is an effect of a run: how far its operation is.
type BatchOperation struct {
	ID      string
	Batch   int               // from 1
	Members []OperationMember // of a group
	Free    []string          // nodes of a group on which nothing more happens: other operations may have them
	Take    []string          // nodes of the platform's group whose batch begins: those that are free are the run's
}
