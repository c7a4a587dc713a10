package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

const operationStepColumns = `operation_id, task, place, seq, step_id, step_kind, resolved_profile, hardware_match, attempt_number, status,
	error_code, duration_ms, earlier, message, digest, bytes`

func scanOperationStep(row sqlkit.Row) (s broker.OperationStep, err error) {
	err = row.Scan(&s.OperationID, &s.Task, &s.Place, &s.Seq, &s.ID, &s.StepKind, &s.ResolvedProfile, &s.HardwareMatch, &s.AttemptNumber,
		&s.Status, &s.ErrorCode, &s.DurationMS, &s.Earlier, &s.Message, &s.Digest, &s.Bytes)
	return s, err
}

// stepsBatch is how many rows of steps a statement writes.
const stepsBatch = 500

func (t *tx) saveSteps(ctx context.Context, o broker.Operation, all []broker.OperationStep) error {
	for some := range slices.Chunk(all, stepsBatch) {
		var rows []string
		args := []any{o.ID, o.Attempt}
		for _, s := range some {
			var places []string
			for _, v := range []any{
				s.Place, s.Seq, s.ID, s.StepKind, s.ResolvedProfile, s.HardwareMatch, s.AttemptNumber, string(s.Status),
				string(s.ErrorCode), s.DurationMS, s.Earlier, s.Message, s.Digest, s.Bytes,
			} {
				args = append(args, v)
				places = append(places, fmt.Sprintf("$%d", len(args)))
			}
			rows = append(rows, "($1, $2, "+strings.Join(places, ", ")+")")
		}
		if _, err := t.ExecContext(ctx, `INSERT INTO operation_steps (`+operationStepColumns+`) VALUES `+strings.Join(rows, ", "), args...); err != nil {
			return err
		}
	}
	return nil
}

// StepPlace is the place of a row among the rows of an operation.
type StepPlace struct{ Task, Place, Seq int }

// OperationSteps returns at most limit rows of an operation after a place, in their order. Step selects
// the rows of one step; empty: of all.
func (db *DB) OperationSteps(ctx context.Context, id, step string, after StepPlace, limit int) ([]broker.OperationStep, error) {
	var w sqlkit.Where
	w.Add("operation_id = ?", id)
	w.Add("(task, place, seq) > (?, ?, ?)", after.Task, after.Place, after.Seq)
	w.Equal("step_id", step)
	return sqlkit.Collect(ctx, db.reader(), scanOperationStep,
		`SELECT `+operationStepColumns+` FROM operation_steps`+w.String()+` ORDER BY task, place, seq`+w.Limit(limit), w.Args...)
}
