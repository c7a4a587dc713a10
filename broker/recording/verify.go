package recording

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
)

// Report is what a look at all blocks of a recording has found.
type Report struct {
	SessionID string    `json:"session_id"`
	Complete  bool      `json:"complete"` // all that the terminal wrote is there, as it was written
	Intact    bool      `json:"intact"`   // what is there is as it was written, whether or not it has an end
	Ended     bool      `json:"ended"`    // it has the end that the audit log was told
	Blocks    int64     `json:"blocks"`   // that were read, up to the first that does not fit
	Bytes     uint64    `json:"bytes"`    // of output in these
	Until     time.Time `json:"until,omitzero"`
	Lost      uint64    `json:"lost"`                // of these, bytes that nobody has: the recording says where
	DroppedAt time.Time `json:"dropped_at,omitzero"` // it is kept no more, as the audit log says
	What      string    `json:"what"`                // what is wrong, and after which block
}

// Told is what the audit log, which is sealed, has of a recording.
type Told struct {
	Heads   []Head    // how far it was, in the order in which that was told
	Cuts    []Cut     // what was found gone
	End     *Head     // nil: none, since the session has not ended or was cut
	Closed  bool      // its session is over, and nobody will tell an end any more
	Dropped time.Time // when it was forgotten, as it was old; zero: it was not
}

// Cut is that blocks were gone when a recording was to go on.
type Cut struct {
	Told Head // of what is not there, what went furthest
	Left Head // what was there
}

// Verify holds a recording's blocks, in their order, to their hashes, and to all that the
// audit log was told of them. Of one that was dropped, as the audit log says, there are none
// any more: only there is that no loss. An error is only that the blocks cannot be read.
func Verify(sessionID string, blocks iter.Seq2[Block, error], told Told) (Report, error) {
	r := Report{SessionID: sessionID, Intact: true, DroppedAt: told.Dropped}
	broken := func(format string, args ...any) (Report, error) {
		r.Intact, r.What = false, fmt.Sprintf(format, args...)
		return r, nil
	}
	heads := slices.DeleteFunc(slices.Clone(told.Heads), func(h Head) bool { return h.Blocks < 1 }) // those are of no block
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
				return broken("block %d is not the one that the audit log was told of, %s%s", b.Seq, heads[0].Hash, told.gone(heads[0]))
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
		return broken("it was dropped, and there are blocks")
	case !told.Dropped.IsZero() && end == nil:
		return broken("it was dropped, and the audit log has no word of its end")
	case !told.Dropped.IsZero():
		r.What = fmt.Sprintf("it was dropped at %s, as it was old: it had %d blocks that ended with %s", told.Dropped.UTC().Format(time.RFC3339), end.Blocks, end.Hash)
	case r.Blocks == 0:
		r.Intact, r.What = end == nil && len(heads) == 0, "there is no block"
	case len(heads) > 0:
		return broken("the audit log has %d blocks that end with %s, and there are %d%s", heads[0].Blocks, heads[0].Hash, r.Blocks, told.gone(heads[0]))
	case end != nil && (end.Blocks != r.Blocks || end.Hash != last.Hash || end.Bytes != last.To):
		return broken("the audit log has %d blocks that end with %s, and there are %d that end with %s", end.Blocks, end.Hash, r.Blocks, last.Hash)
	case !last.Last:
		r.What = fmt.Sprintf("it has no end after block %d, of %s: the session goes on, or was cut there%s", last.Seq, last.At.UTC().Format(time.RFC3339), lost(r.Lost, gaps))
	case end == nil && told.Closed:
		return broken("it has an end, of which the audit log has no word")
	case end == nil:
		r.What = fmt.Sprintf("it has an end, block %d, of which the audit log has not been told yet%s", last.Seq, lost(r.Lost, gaps))
	default:
		r.Ended, r.Complete, r.What = true, r.Lost == 0, strings.TrimPrefix(lost(r.Lost, gaps), "; ")
	}
	return r, nil
}

// gone says from where on blocks were gone that went as far as told; empty: nobody has
// gone on without them.
func (t Told) gone(told Head) string {
	for _, c := range t.Cuts {
		switch {
		case c.Told.Blocks < told.Blocks:
		case c.Left.Blocks == 0:
			return ": all blocks were gone when it was to go on"
		default:
			return fmt.Sprintf(": those after block %d were gone when it was to go on", c.Left.Blocks-1)
		}
	}
	return ""
}

// manyGaps is how many gaps are named.
const manyGaps = 5

// lost says where bytes are missing that nobody has; empty: nowhere.
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
