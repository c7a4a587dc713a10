package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// RolloutMembers returns the members of a rollout, ordered by place. An empty result means that the
// members are in the state of the rollout's run.
func (db *DB) RolloutMembers(ctx context.Context, runID string) ([]broker.RolloutMember, error) {
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (m broker.RolloutMember, err error) {
		return m, row.Scan(&m.Place, sqlkit.ScanRawJSON(&m.Member))
	}, `SELECT place, member FROM rollout_members WHERE run_id = $1 ORDER BY place`, runID)
}

// membersBatch is how many members a statement writes.
const membersBatch = 500

func (t *tx) saveMembers(ctx context.Context, runID string, all broker.SaveMembers) error {
	for some := range slices.Chunk(all, membersBatch) {
		var rows []string
		args := []any{runID}
		for _, m := range some {
			args = append(args, m.Place, string(m.Member))
			rows = append(rows, fmt.Sprintf("($1, $%d, $%d)", len(args)-1, len(args)))
		}
		if _, err := t.ExecContext(ctx, `INSERT INTO rollout_members (run_id, place, member) VALUES `+strings.Join(rows, ", ")+
			` ON CONFLICT (run_id, place) DO UPDATE SET member = excluded.member`, args...); err != nil {
			return err
		}
	}
	return nil
}
