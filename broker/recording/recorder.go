package recording

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// Recorder writes one session's recording. A Recorder is not safe for concurrent use.
type Recorder struct {
	keep  Keeper
	now   func() time.Time
	began time.Time

	last    Block         // the last kept block
	lines   []byte        // of the next block
	to      uint64        // bytes of output so far
	lost    uint64        // lost bytes among these
	after   time.Duration // of the last event
	partial []byte        // bytes of an incomplete character
	failed  Block         // a block that Keep did not accept: the next try keeps the same block
	ended   bool
}

// Head is the length of a recording, as recorded in the audit log.
type Head struct {
	SessionID string
	Blocks    int64
	Bytes     uint64 // of output
	Hash      string // of the last block
}

// HeadOf returns the Head of a recording with this last block.
func HeadOf(last Block) Head {
	return Head{SessionID: last.SessionID, Blocks: last.Seq + 1, Bytes: last.To, Hash: last.Hash}
}

// Begin starts a recording with its header.
func Begin(ctx context.Context, keep Keeper, sessionID string, h Header, now func() time.Time) (*Recorder, error) {
	r := &Recorder{keep: keep, now: now, began: now(), last: Block{SessionID: sessionID, Seq: -1}}
	h.Timestamp = r.began.Unix()
	r.lines = h.line()
	_, err := r.Flush(ctx)
	return r, err
}

// Resume continues a recording after its last block and records the interruption. Codes:
// recording_ended, recording_broken.
func Resume(ctx context.Context, keep Keeper, last Block, began time.Time, now func() time.Time) (*Recorder, error) {
	switch {
	case last.Last:
		return nil, broker.Errorf(broker.Refused, "recording_ended", "cannot continue the recording of session %s: the recording has ended",
			last.SessionID)
	case last.Hash != last.hash():
		return nil, broker.Errorf(broker.Refused, "recording_broken",
			"cannot continue the recording of session %s: block %d was changed (hostler recording verify %s)", last.SessionID, last.Seq,
			last.SessionID)
	}
	r := &Recorder{keep: keep, now: now, began: began, last: last, to: last.To, lost: last.Lost, after: last.At.Sub(began)}
	r.mark(now(), "the relay continued the recording")
	_, err := r.Flush(ctx)
	return r, err
}

// Output adds what the terminal has written at a time. It is safe when Flush says so.
func (r *Recorder) Output(at time.Time, b []byte) {
	r.to += uint64(len(b))
	if len(r.partial) > 0 {
		b = append(r.partial, b...)
	}
	n := len(b) - tail(b)
	r.partial = bytes.Clone(b[n:])
	event(r, at, Output, b[:n])
}

// Waits reports whether an incomplete character is held back for its rest.
func (r *Recorder) Waits() bool { return len(r.partial) > 0 }

// Settle adds an incomplete character as it is; no more bytes will complete it.
func (r *Recorder) Settle(at time.Time) {
	b := r.partial
	r.partial = nil
	event(r, at, Output, b)
}

// tail returns the length of an incomplete character at the end of b.
func tail(b []byte) int {
	for n := 1; n <= min(len(b), utf8.UTFMax-1); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// Input adds the operator's input, for sessions with recorded input.
func (r *Recorder) Input(at time.Time, b []byte) { event(r, at, Input, b) }

// Resize adds a change of the terminal's size.
func (r *Recorder) Resize(at time.Time, columns, rows uint16) {
	event(r, at, Resize, fmt.Sprintf("%dx%d", columns, rows))
}

// Gap records the loss of output bytes and the reason. Lost bytes count as recorded, because nobody
// has them any more.
func (r *Recorder) Gap(at time.Time, bytes uint64, why string) {
	r.Settle(at)
	r.to, r.lost = r.to+bytes, r.lost+bytes
	r.mark(at, fmt.Sprintf("%d bytes of output are lost: %s", bytes, why))
}

// Cut records that blocks known to the audit log are gone; told is the longest known Head. The
// output in these blocks counts as lost.
func (r *Recorder) Cut(told Head) {
	gone := max(told.Bytes, r.to) - r.to
	r.to, r.lost = r.to+gone, r.lost+gone
	r.mark(r.now(), fmt.Sprintf("stored blocks are missing: the audit log has %d blocks, up to %s; with them %d bytes of output are lost",
		told.Blocks, told.Hash, gone))
}

// Head returns the length of the kept recording.
func (r *Recorder) Head() Head { return HeadOf(r.last) }

func (r *Recorder) mark(at time.Time, text string) {
	event(r, at, Marker, "hostler: "+taskcatalog.Clean(text, 500))
}

// event adds a line. Times in a file never decrease, whatever the clock does.
func event[T []byte | string](r *Recorder, at time.Time, k EventKind, text T) {
	if len(text) == 0 && k != Marker {
		return
	}
	r.after = max(at.Sub(r.began), r.after)
	r.lines = appendEvent(r.lines, r.after, k, text)
}

// Expect reserves room for so many bytes of output and input, so that adding them copies nothing.
func (r *Recorder) Expect(bytes int) { r.lines = slices.Grow(r.lines, bytes+bytes/16) }

// Flush keeps the added events and returns the output position up to which the recording goes. Up
// to there the operator may see the output and the node may forget it. After a failure the next
// Flush tries to keep the same block. Codes: those of the Keeper.
func (r *Recorder) Flush(ctx context.Context) (uint64, error) {
	if r.failed.Hash != "" {
		if err := r.put(ctx, r.failed); err != nil {
			return r.last.To, err
		}
	}
	if len(r.lines) == 0 {
		return r.last.To, nil
	}
	return r.last.To, r.flush(ctx, false)
}

func (r *Recorder) flush(ctx context.Context, last bool) error {
	b := Block{
		SessionID: r.last.SessionID, Seq: r.last.Seq + 1, At: r.now().UTC().Truncate(time.Microsecond),
		To: r.to - uint64(len(r.partial)), Lost: r.lost, Last: last, Lines: r.lines, Prev: r.last.Hash,
	}
	b.Hash = b.hash()
	r.lines = nil
	return r.put(ctx, b)
}

func (r *Recorder) put(ctx context.Context, b Block) error {
	if err := r.keep.Keep(ctx, b); err != nil {
		r.failed = b
		return err
	}
	r.failed, r.last, r.ended = Block{}, b, b.Last
	r.last.Lines = nil
	return nil
}

// End writes the last block with the reason for the session's end. Callers may repeat End until the
// block is kept. Codes: those of the Keeper.
func (r *Recorder) End(ctx context.Context, why string) (Head, error) {
	if _, err := r.Flush(ctx); err != nil {
		return Head{}, err
	}
	if !r.ended {
		now := r.now()
		r.Settle(now)
		r.mark(now, "the session ended: "+why)
		if err := r.flush(ctx, true); err != nil {
			return Head{}, err
		}
	}
	return HeadOf(r.last), nil
}
