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

// Recorder writes one session's recording. It is not for several goroutines at once.
type Recorder struct {
	keep  Keeper
	now   func() time.Time
	began time.Time

	last    Block         // the one that was kept last
	lines   []byte        // of the next one
	to      uint64        // bytes of output so far
	lost    uint64        // of these, those that nobody has
	after   time.Duration // of the last event
	partial []byte        // of a character that is not all there
	failed  Block         // that Keep did not take: the next try is the same
	ended   bool
}

// Head is how far a recording is, as the audit log is told.
type Head struct {
	SessionID string
	Blocks    int64
	Bytes     uint64 // of output
	Hash      string // of the last block
}

// HeadOf is that of a recording with this last block.
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

// Resume goes on with a recording after its last block, and has it say that it was cut.
// Codes: recording_ended, recording_broken.
func Resume(ctx context.Context, keep Keeper, last Block, began time.Time, now func() time.Time) (*Recorder, error) {
	switch {
	case last.Last:
		return nil, broker.Errorf(broker.Refused, "recording_ended", "cannot go on with the recording of session %s: it has ended", last.SessionID)
	case last.Hash != last.hash():
		return nil, broker.Errorf(broker.Refused, "recording_broken", "cannot go on with the recording of session %s: block %d is not as it was written (hostler recording verify %s)", last.SessionID, last.Seq, last.SessionID)
	}
	r := &Recorder{keep: keep, now: now, began: began, last: last, to: last.To, lost: last.Lost, after: last.At.Sub(began)}
	r.mark(now(), "the relay began anew")
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

// Waits reports whether the beginning of a character is held back for the rest of it.
func (r *Recorder) Waits() bool { return len(r.partial) > 0 }

// Settle adds the beginning of a character as it is, which nothing is to complete any more.
func (r *Recorder) Settle(at time.Time) {
	b := r.partial
	r.partial = nil
	event(r, at, Output, b)
}

// tail is how many bytes at the end of b are the beginning of a character.
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

// Input adds what the operator has typed, where policy says so.
func (r *Recorder) Input(at time.Time, b []byte) { event(r, at, Input, b) }

// Resize adds a change of the terminal's size.
func (r *Recorder) Resize(at time.Time, columns, rows uint16) {
	event(r, at, Resize, fmt.Sprintf("%dx%d", columns, rows))
}

// Gap says that bytes of output are lost, and why. They count as recorded: nobody has
// them any more.
func (r *Recorder) Gap(at time.Time, bytes uint64, why string) {
	r.Settle(at)
	r.to, r.lost = r.to+bytes, r.lost+bytes
	r.mark(at, fmt.Sprintf("%d bytes of output are lost: %s", bytes, why))
}

// Cut says that blocks are gone which the audit log was told of: that of them which went
// furthest. The output in them counts as lost, as nobody has it any more.
func (r *Recorder) Cut(told Head) {
	gone := max(told.Bytes, r.to) - r.to
	r.to, r.lost = r.to+gone, r.lost+gone
	r.mark(r.now(), fmt.Sprintf("blocks that were kept are gone: the audit log was told of %d blocks, up to %s; with them %d bytes of output are lost", told.Blocks, told.Hash, gone))
}

// Head is how far the recording is kept.
func (r *Recorder) Head() Head { return HeadOf(r.last) }

func (r *Recorder) mark(at time.Time, text string) {
	event(r, at, Marker, "hostler: "+taskcatalog.Clean(text, 500))
}

// event adds a line. A file's times never go back, whatever a clock does.
func event[T []byte | string](r *Recorder, at time.Time, k EventKind, text T) {
	if len(text) == 0 && k != Marker {
		return
	}
	r.after = max(at.Sub(r.began), r.after)
	r.lines = appendEvent(r.lines, r.after, k, text)
}

// Expect makes room for so many bytes of output and input, so that none of what was added is
// copied for the next.
func (r *Recorder) Expect(bytes int) { r.lines = slices.Grow(r.lines, bytes+bytes/16) }

// Flush keeps what was added, and says up to which byte of output the recording goes: so
// far the operator may be shown it, and the node may forget it. What could not be kept is
// tried again by the next Flush, as it was. Codes: those of the Keeper.
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

// End writes the last block, which says why the session is over. It may be asked for
// again until it is kept. Codes: those of the Keeper.
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
