package recording

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
)

// Report is the result of verifying all blocks of a recording.
type Report struct {
	SessionID string    `json:"session_id"`
	Complete  bool      `json:"complete"` // all output of the terminal is present and unchanged
	Intact    bool      `json:"intact"`   // the present blocks are unchanged, with or without an end
	Ended     bool      `json:"ended"`    // the end is the end known to the audit log
	Blocks    int64     `json:"blocks"`   // number of blocks read, up to the first invalid block
	Bytes     uint64    `json:"bytes"`    // of output in these blocks
	Until     time.Time `json:"until,omitzero"`
	Lost      uint64    `json:"lost"`                // lost bytes among these: the recording says where
	DroppedAt time.Time `json:"dropped_at,omitzero"` // when the recording was dropped, by the audit log
	What      string    `json:"what"`                // the fault, and the block before it
}

// Told is what the sealed audit log knows about a recording.
type Told struct {
	Heads   []Head    // recorded lengths, in the order of their entries
	Cuts    []Cut     // recorded losses
	End     *Head     // nil: the session has not ended or was cut
	Closed  bool      // the session is over, and no end will be recorded any more
	Dropped time.Time // when the recording was dropped for its age; zero: it was not
}

// Cut records that blocks were missing when a recording was to continue.
type Cut struct {
	Told Head // the longest known Head of the missing blocks
	Left Head // the Head of the present blocks
}

// Verify checks a recording's blocks, in their order, against their hashes and against the audit
// log. A recording that the audit log reports as dropped has no blocks, and this counts as no loss.
// An error means only that the blocks could not be read.
func Verify(sessionID string, blocks iter.Seq2[Block, error], told Told) (Report, error) {
	r := Report{SessionID: sessionID, Intact: true, DroppedAt: told.Dropped}
	broken := func(format string, args ...any) (Report, error) {
		r.Intact, r.What = false, fmt.Sprintf(format, args...)
		return r, nil
	}
	heads := slices.DeleteFunc(slices.Clone(told.Heads), func(h Head) bool { return h.Blocks < 1 }) // entries without blocks
	slices.SortStableFunc(heads, func(a, b Head) int { return cmp.Compare(a.Blocks, b.Blocks) })
	last := Block{Seq: -1}
	var gaps []string
	for b, err := range blocks {
		if err != nil {
			return r, err
		}
		if why := follows(sessionID, last, b); why != "" {
			return broken("%s", why)
		}
		for ; len(heads) > 0 && heads[0].Blocks == b.Seq+1; heads = heads[1:] {
			if heads[0].Hash != b.Hash {
				return broken("block %d differs from the block in the audit log, %s%s", b.Seq, heads[0].Hash, told.gone(heads[0]))
			}
		}
		if b.Lost > last.Lost {
			gaps = append(gaps, fmt.Sprint(b.Seq))
		}
		last = b
		r.Blocks, r.Bytes, r.Lost, r.Until = b.Seq+1, b.To, b.Lost, b.At
	}
	end := told.End
	switch {
	case !told.Dropped.IsZero() && r.Blocks > 0:
		return broken("the recording was deleted, and blocks exist")
	case !told.Dropped.IsZero() && end == nil:
		return broken("the recording was deleted, and the audit log has no entry about its end")
	case !told.Dropped.IsZero():
		r.What = fmt.Sprintf("the recording was deleted at %s, at the end of its retention time: it had %d blocks that ended with %s",
			told.Dropped.UTC().Format(time.RFC3339), end.Blocks, end.Hash)
	case r.Blocks == 0:
		r.Intact, r.What = end == nil && len(heads) == 0, "the recording has no block"
	case len(heads) > 0:
		return broken("the audit log has %d blocks that end with %s, and the recording has %d%s", heads[0].Blocks, heads[0].Hash, r.Blocks,
			told.gone(heads[0]))
	case end != nil && (end.Blocks != r.Blocks || end.Hash != last.Hash || end.Bytes != last.To):
		return broken("the audit log has %d blocks that end with %s, and the recording has %d that end with %s", end.Blocks, end.Hash,
			r.Blocks, last.Hash)
	case !last.Last:
		r.What = fmt.Sprintf("the recording has no end after block %d, of %s: the session continues, or the recording was cut off there%s",
			last.Seq, last.At.UTC().Format(time.RFC3339), lost(r.Lost, gaps))
	case end == nil && told.Closed:
		return broken("the recording has an end, and the audit log has no entry about the end")
	case end == nil:
		r.What = fmt.Sprintf("the recording has an end, block %d, which is not in the audit log yet%s", last.Seq, lost(r.Lost, gaps))
	default:
		r.Ended, r.Complete, r.What = true, r.Lost == 0, strings.TrimPrefix(lost(r.Lost, gaps), "; ")
	}
	return r, nil
}

// gone says where blocks up to told went missing; empty: the recording did not continue without
// them.
func (t Told) gone(told Head) string {
	for _, c := range t.Cuts {
		switch {
		case c.Told.Blocks < told.Blocks:
		case c.Left.Blocks == 0:
			return ": all blocks were missing when the recording was to continue"
		default:
			return fmt.Sprintf(": the blocks after block %d were missing when the recording was to continue", c.Left.Blocks-1)
		}
	}
	return ""
}

// manyGaps is the number of gaps listed.
const manyGaps = 5

// lost says where bytes are missing; empty: nowhere.
func lost(bytes uint64, blocks []string) string {
	if bytes == 0 {
		return ""
	}
	more := ""
	if len(blocks) > manyGaps {
		blocks, more = blocks[:manyGaps], fmt.Sprintf(" and %d more", len(blocks)-manyGaps)
	}
	return fmt.Sprintf("; %d bytes of output are lost, in block %s%s", bytes, strings.Join(blocks, ", "), more)
}

// follows says why b is not the block after last; empty: b follows last.
func follows(sessionID string, last, b Block) string {
	switch {
	case b.SessionID != sessionID:
		return fmt.Sprintf("block %d is followed by a block of session %q", last.Seq, b.SessionID)
	case b.Seq != last.Seq+1:
		return fmt.Sprintf("block %d is followed by block %d", last.Seq, b.Seq)
	case last.Last:
		return fmt.Sprintf("there are blocks after the last one, %d", last.Seq)
	case b.Prev != last.Hash || b.To < last.To || b.Lost < last.Lost:
		return fmt.Sprintf("block %d does not continue where block %d ends", b.Seq, last.Seq)
	case b.Hash != b.hash():
		return fmt.Sprintf("block %d was changed", b.Seq)
	}
	return ""
}
