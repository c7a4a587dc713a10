package frame

import "github.com/hostler/hostler/taskcatalog"

// Inflow takes one direction's bytes, each once and in their order. The zero value is at
// the beginning.
type Inflow struct {
	taken uint64
	limit uint64
	end   uint64 // where the direction ends, plus one; 0: not known yet
}

// NewInflow goes on after taken bytes.
func NewInflow(taken uint64) *Inflow { return &Inflow{taken: taken, limit: taken} }

// Allow lets the other side send up to window bytes more than have been taken, and gives
// the Ack that tells it so. A limit that was given is never taken back.
func (in *Inflow) Allow(window uint64) Ack {
	in.limit = max(in.limit, in.taken+window)
	return Ack{Taken: in.taken, Limit: in.limit}
}

// Pass is Allow for a relay: it acknowledges what it has kept, which may be less than it
// has taken, and allows what its own other side has room for.
func (in *Inflow) Pass(kept, limit uint64) Ack {
	in.limit = max(in.limit, limit)
	return Ack{Taken: min(kept, in.taken), Limit: in.limit}
}

// Taken is how many bytes were.
func (in *Inflow) Taken() uint64 { return in.taken }

// Take gives what of a frame is new: nothing, if all was taken before. A frame that leaves
// bytes out is refused, as is one beyond what was allowed, or beyond the end. Codes:
// frame_gap, frame_beyond_limit, frame_after_end.
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

// End notes where the direction ends; done reports that all of it was taken. Codes:
// frame_after_end, for an end before what was taken or beside the one that was told.
func (in *Inflow) End(f EOF) (done bool, err error) {
	if f.Offset < in.taken || in.end != 0 && f.Offset != in.end-1 {
		return false, taskcatalog.Errorf(CodeAfterEnd, "an end at %d, and %d bytes were taken", f.Offset, in.taken)
	}
	in.end = f.Offset + 1
	return f.Offset == in.taken, nil
}

// Ended reports that the direction has ended, and all of it was taken.
func (in *Inflow) Ended() bool { return in.end != 0 && in.taken == in.end-1 }

// Codes of what does not fit into a flow.
const (
	CodeGap         taskcatalog.Code = "frame_gap"
	CodeBeyondLimit taskcatalog.Code = "frame_beyond_limit"
	CodeAfterEnd    taskcatalog.Code = "frame_after_end"
	CodeAckUnsent   taskcatalog.Code = "ack_unsent"
	CodeLost        taskcatalog.Code = "frame_lost"
)

// Outflow keeps one direction's bytes until the other side has taken them. What it keeps
// is bounded by what the other side allows. The zero value is at the beginning, with
// nothing allowed.
type Outflow struct {
	kept  []byte
	from  uint64 // of the first byte that is kept
	limit uint64
}

// NewOutflow goes on after sent bytes, all of which the other side has taken.
func NewOutflow(sent uint64) *Outflow { return &Outflow{from: sent, limit: sent} }

// Room is how many bytes may be added now.
func (out *Outflow) Room() int { return int(min(max(out.limit, out.end())-out.end(), MaxData)) }

// Anew has the other side allow this much and no more, as on a new connection: another
// relay does not know what the one before has allowed.
func (out *Outflow) Anew(limit uint64) { out.limit = limit }

// Limit is up to where the other side allows bytes.
func (out *Outflow) Limit() uint64 { return out.limit }

// From and Sent are where the bytes begin and end that can be sent again.
func (out *Outflow) From() uint64 { return out.from }

// Sent is how many bytes were added.
func (out *Outflow) Sent() uint64 { return out.end() }

func (out *Outflow) end() uint64 { return out.from + uint64(len(out.kept)) }

// Add takes up to Room bytes and gives them as a frame to be sent.
func (out *Outflow) Add(b []byte) Data {
	b = b[:min(len(b), out.Room())]
	f := Data{Offset: out.end(), Bytes: b}
	out.kept = append(out.kept, b...)
	return f
}

// Acked forgets what was taken, and allows more. Codes: ack_unsent, for bytes that were
// never sent.
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

// Part gives the frame that goes on after the first at bytes, which has none where all of
// it was given, or no more of it is allowed. Its bytes are good until the next Add or Acked.
// Codes: frame_lost, for a place that was acknowledged; ack_unsent, for one beyond what was
// added.
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

// Again gives the frames that bring the other side on from what it has. Codes: those of
// Part.
func (out *Outflow) Again(has uint64) ([]Data, error) {
	var frames []Data
	for {
		f, err := out.Part(has)
		if err != nil || len(f.Bytes) == 0 {
			return frames, err
		}
		frames, has = append(frames, f), has+uint64(len(f.Bytes))
	}
}
