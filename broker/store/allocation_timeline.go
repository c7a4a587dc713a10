package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// AllocationState is a status that an allocation reached.
type AllocationState struct {
	At     time.Time
	Status broker.AllocationStatus
	By     string // the tenant's token or person; empty: the platform
	Code   string // of a failure
}

// AllocationTimeline returns the newest states of an allocation, at most limit, oldest first. earlier:
// older states were left out. The audit log has them: the allocation's row has one time a status, and
// a release that is tried again reaches a status again. A token of the platform, the broker itself and
// whatever has no owner is the platform.
func (db *DB) AllocationTimeline(ctx context.Context, id string, limit int) (states []AllocationState, earlier bool, err error) {
	states, err = sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (s AllocationState, err error) {
		var actor string
		var after json.RawMessage
		if err := row.Scan(sqlkit.ScanMicros(&s.At), &actor, sqlkit.ScanRawJSON(&after)); err != nil {
			return s, err
		}
		var reached struct {
			Status broker.AllocationStatus `json:"status"`
			Owner  broker.AllocationOwner  `json:"owner"`
			Code   string                  `json:"code"`
			At     time.Time               `json:"at"`
		}
		if err := json.Unmarshal(after, &reached); err != nil {
			return s, err
		}
		s.Status, s.Code = cmp.Or(reached.Status, broker.AllocationRequested), reached.Code // a row of a broker of before has no status
		if !reached.At.IsZero() {
			s.At = reached.At
		}
		if reached.Owner == broker.AllocationUser && actor != broker.System.Name {
			s.By = actor
		}
		return s, nil
	}, `SELECT at, actor, after FROM audit_logs WHERE subject = $1 AND action IN ('`+createAllocation+`', '`+transitionAllocation+`') AND code = ''
		ORDER BY id DESC LIMIT $2`, "allocation/"+id, limit+1)
	if len(states) > limit {
		states, earlier = states[:limit], true
	}
	slices.Reverse(states)
	return states, earlier, err
}

// reachedText is the time of a status as an audit row has it: exactly the time in the allocation's row.
func reachedText(at time.Time) string {
	return at.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
}
