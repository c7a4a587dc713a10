package broker

import "time"

// Outage is a time in which a node was out of use because a turnover was owed.
type Outage struct {
	NodeID, Site string
	GPUs         int64 // GPUs that the node shall have
	BeganAt      time.Time
	EndedAt      time.Time // zero: not ended
}

// Duration is the duration of the outage between two moments.
func (o Outage) Duration(from, to time.Time) time.Duration {
	end := o.EndedAt
	if end.IsZero() || end.After(to) {
		end = to
	}
	if o.BeganAt.After(from) {
		from = o.BeganAt
	}
	return max(end.Sub(from), 0)
}

// Outside reports whether a node is out of use because it is owed a turnover.
func (n Node) Outside() bool {
	return n.TurnoverOwed && n.Status != Active && n.Status != Deleted
}
