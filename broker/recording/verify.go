package recording

import (
	"fmt"
	"iter"
	"time"
)

// Report is what a look at all blocks of a recording has found.
type Report struct {
	SessionID string    `json:"session_id"`
	Complete  bool      `json:"complete"` // all of it is there, as it was written
	Intact    bool      `json:"intact"`   // what is there is as it was written, whether or not it has an end
	Blocks    int64     `json:"blocks"`   // that were read, up to the first that does not fit
	Bytes     uint64    `json:"bytes"`    // of output in these
	Until     time.Time `json:"until,omitzero"`
	Lost      uint64    `json:"lost"`                // of these, bytes that nobody has: the recording says where
	DroppedAt time.Time `json:"dropped_at,omitzero"` // it is kept no more, as the audit log says
	What      string    `json:"what"`                // what is wrong, and after which block
}

// Verify holds a recording's blocks, in their order, to their hashes, and its end to what
// the audit log was told; nil: it was told nothing, since the session has not ended or was
// cut. One that was dropped, as the audit log says, has no blocks any more: only there is
// that no loss. An error is only that the blocks cannot be read.
func Verify(sessionID string, blocks iter.Seq2[Block, error], told *Head, dropped time.Time) (Report, error) {
	r := Report{SessionID: sessionID, Intact: true, DroppedAt: dropped}
	last := Block{Seq: -1}
	for b, err := range blocks {
		if err != nil {
			return r, err
		}
		if why := follows(sessionID, last, b); why != "" {
			r.Intact, r.What = false, why
			return r, nil
		}
		last = b
		r.Blocks, r.Bytes, r.Lost, r.Until = b.Seq+1, b.To, b.Lost, b.At
	}
	switch {
	case !dropped.IsZero() && r.Blocks > 0:
		r.Intact, r.What = false, "it was dropped, and there are blocks"
	case !dropped.IsZero() && told == nil:
		r.Intact, r.What = false, "it was dropped, and the audit log has no word of its end"
	case !dropped.IsZero():
		r.What = fmt.Sprintf("it was dropped at %s, as it was old: it had %d blocks that ended with %s", dropped.UTC().Format(time.RFC3339), told.Blocks, told.Hash)
	case r.Blocks == 0:
		r.Intact, r.What = told == nil, "there is no block"
	case told != nil && (told.Blocks != r.Blocks || told.Hash != last.Hash || told.Bytes != last.To):
		r.Intact, r.What = false, fmt.Sprintf("the audit log has %d blocks that end with %s, and there are %d that end with %s", told.Blocks, told.Hash, r.Blocks, last.Hash)
	case !last.Last:
		r.What = fmt.Sprintf("it has no end after block %d, of %s: the session goes on, or was cut there", last.Seq, last.At.UTC().Format(time.RFC3339))
	case told == nil:
		r.Intact, r.What = false, "it has an end, of which the audit log has no word"
	default:
		r.Complete = true
	}
	return r, nil
}

// follows says why b is not the block after last; empty: it is.
func follows(sessionID string, last, b Block) string {
	switch {
	case b.SessionID != sessionID:
		return fmt.Sprintf("after block %d comes one of session %q", last.Seq, b.SessionID)
	case b.Seq != last.Seq+1:
		return fmt.Sprintf("after block %d comes block %d", last.Seq, b.Seq)
	case last.Last:
		return fmt.Sprintf("there are blocks after the last one, %d", last.Seq)
	case b.Prev != last.Hash || b.To < last.To || b.Lost < last.Lost:
		return fmt.Sprintf("block %d does not go on where block %d ends", b.Seq, last.Seq)
	case b.Hash != b.hash():
		return fmt.Sprintf("block %d is not as it was written", b.Seq)
	}
	return ""
}
