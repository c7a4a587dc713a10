package frame

import "github.com/hostler/hostler/taskcatalog"

// Inflow accepts one direction's bytes, each once and in order. The zero value is at the beginning.
type Inflow struct {
	taken uint64
	limit uint64
	end   uint64 // end of the direction, plus one; 0: unknown
}

// NewInflow returns an Inflow that continues after taken bytes.
func NewInflow(taken uint64) *Inflow { return &Inflow{taken: taken, limit: taken} }

// Allow lets the other side send up to window bytes beyond the taken bytes, and returns the Ack for
// the other side. A granted limit is never withdrawn.
func (in *Inflow) Allow(window uint64) Ack {
	in.limit = max(in.limit, in.taken+window)
	return Ack{Taken: in.taken, Limit: in.limit}
}

// Pass is Allow for a relay. The Ack acknowledges only kept bytes, possibly fewer than the taken
// bytes, and allows bytes up to the limit of the relay's other side.
func (in *Inflow) Pass(kept, limit uint64) Ack {
	in.limit = max(in.limit, limit)
	return Ack{Taken: min(kept, in.taken), Limit: in.limit}
}

// Taken returns the number of taken bytes.
func (in *Inflow) Taken() uint64 { return in.taken }

// Take returns the new bytes of a frame; nil if all were taken before. A frame after a gap, beyond
// the limit, or beyond the end is refused. Codes: frame_gap, frame_beyond_limit, frame_after_end.
func (in *Inflow) Take(f Data) ([]byte, error) {
	to := f.Offset + uint64(len(f.Bytes))
	switch {
	case to <= in.taken:
		return nil, nil
	case f.Offset > in.taken:
		return nil, taskcatalog.Errorf(CodeGap, "bytes %d to %d are missing", in.taken, f.Offset)
	case to > in.limit:
		return nil, taskcatalog.Errorf(CodeBeyondLimit, "bytes up to %d were sent, and %d were allowed", to, in.limit)
	case in.end != 0 && to > in.end-1:
		return nil, taskcatalog.Errorf(CodeAfterEnd, "bytes up to %d were sent after the end at %d", to, in.end-1)
	}
	fresh := f.Bytes[in.taken-f.Offset:]
	in.taken = to
	return fresh, nil
}

// End notes the end of the direction; done reports whether all bytes were taken. Codes:
// frame_after_end, for an end before taken bytes or an end that differs from an earlier one.
func (in *Inflow) End(f EOF) (done bool, err error) {
	if f.Offset < in.taken || in.end != 0 && f.Offset != in.end-1 {
		return false, taskcatalog.Errorf(CodeAfterEnd, "an end at %d, and %d bytes were taken", f.Offset, in.taken)
	}
	in.end = f.Offset + 1
	return f.Offset == in.taken, nil
}

// Ended reports whether the direction has ended and all its bytes were taken.
func (in *Inflow) Ended() bool { return in.end != 0 && in.taken == in.end-1 }

// Codes of flow violations.
const (
	CodeGap         taskcatalog.Code = "frame_gap"
	CodeBeyondLimit taskcatalog.Code = "frame_beyond_limit"
	CodeAfterEnd    taskcatalog.Code = "frame_after_end"
	CodeAckUnsent   taskcatalog.Code = "ack_unsent"
	CodeLost        taskcatalog.Code = "frame_lost"
)

// Outflow keeps one direction's bytes until the other side has taken them. The other side's limit
// bounds the kept bytes. The zero value is at the beginning, with nothing allowed.
type Outflow struct {
	kept  []byte
	from  uint64 // position of the first kept byte
	limit uint64
}

// NewOutflow returns an Outflow that continues after sent bytes, all of them taken by the other
// side.
func NewOutflow(sent uint64) *Outflow { return &Outflow{from: sent, limit: sent} }

// Room returns how many bytes may be added now.
func (out *Outflow) Room() int { return int(min(max(out.limit, out.end())-out.end(), MaxData)) }

// ResetLimit replaces the limit, as for a new connection: another relay does not know the limit that the
// previous relay granted.
func (out *Outflow) ResetLimit(limit uint64) { out.limit = limit }

// Limit returns the position up to which the other side allows bytes.
func (out *Outflow) Limit() uint64 { return out.limit }

// From returns the position of the first byte that can be sent again.
func (out *Outflow) From() uint64 { return out.from }

// Sent is how many bytes were added.
func (out *Outflow) Sent() uint64 { return out.end() }

func (out *Outflow) end() uint64 { return out.from + uint64(len(out.kept)) }

// Add accepts up to Room bytes and returns them as a frame to send.
func (out *Outflow) Add(b []byte) Data {
	b = b[:min(len(b), out.Room())]
	f := Data{Offset: out.end(), Bytes: b}
	out.kept = append(out.kept, b...)
	return f
}

// Acked forgets taken bytes and raises the limit. Codes: ack_unsent, for bytes that were never
// sent.
func (out *Outflow) Acked(a Ack) error {
	if a.Taken > out.end() {
		return taskcatalog.Errorf(CodeAckUnsent, "%d bytes are acknowledged, and %d were sent", a.Taken, out.end())
	}
	if a.Taken > out.from {
		rest := out.kept[a.Taken-out.from:]
		out.kept = append(out.kept[:0], rest...)
		out.from = a.Taken
	}
	out.limit = max(out.limit, a.Limit)
	return nil
}

// Part returns the frame with the bytes after position at. The frame is empty if no bytes follow at
// or no more are allowed. Its bytes are valid until the next Add or Acked. Codes: frame_lost, for
// an acknowledged position; ack_unsent, for a position beyond the added bytes.
func (out *Outflow) Part(at uint64) (Data, error) {
	switch {
	case at < out.from:
		return Data{}, taskcatalog.Errorf(CodeLost, "bytes %d to %d are gone", at, out.from)
	case at > out.end():
		return Data{}, taskcatalog.Errorf(CodeAckUnsent, "%d bytes are acknowledged, and %d were sent", at, out.end())
	}
	part := out.kept[at-out.from:]
	return Data{Offset: at, Bytes: part[:min(uint64(len(part)), MaxData, max(out.limit, at)-at)]}, nil
}

// Resend returns the frames with all bytes after position has. Codes: those of Part.
func (out *Outflow) Resend(has uint64) ([]Data, error) {
	var frames []Data
	for {
		f, err := out.Part(has)
		if err != nil || len(f.Bytes) == 0 {
			return frames, err
		}
		frames, has = append(frames, f), has+uint64(len(f.Bytes))
	}
}
