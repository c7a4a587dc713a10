package frame

import "time"

// Bounds of the early repeat: what is longer than a keystroke, or the answer to one, is as
// well served by the stream, and a link that bears nothing is not helped by more of it.
const (
	repeatMax    = 1000 // bytes, in all, that are not acknowledged; one datagram
	repeatTimes  = 5
	repeatPause  = 10 * time.Millisecond // at the least, between any two
	repeatPerRTT = 4
)

// Repeat is when a direction's bytes that are not acknowledged go out as a datagram, beside
// the stream: at once when there is something new, and again at growing pauses. The zero
// value is for a new connection.
type Repeat struct {
	upTo  uint64 // of the bytes that were sent so
	times int    // since there was something new
	pause time.Duration
	last  time.Time
}

// Next gives what to send now, or else when to look again: zero, if not before something
// changes. The frame's bytes are good until the Outflow's next Add or Acked.
func (r *Repeat) Next(now time.Time, out *Outflow, rtt time.Duration) (Data, time.Time) {
	missing := min(out.Sent(), max(out.Limit(), out.From())) - out.From()
	if missing == 0 || missing > repeatMax {
		return Data{}, time.Time{}
	}
	if out.Sent() != r.upTo {
		r.upTo, r.times, r.pause = out.Sent(), 0, repeatPause
	}
	if r.times > repeatTimes {
		return Data{}, time.Time{}
	}
	if due := r.last.Add(r.pause); now.Before(due) {
		return Data{}, due
	}
	if r.times == 0 {
		r.pause = max(repeatPause, rtt/repeatPerRTT)
	} else {
		r.pause *= 2
	}
	r.times++
	r.last = now
	part, err := out.Part(out.From())
	if err != nil {
		return Data{}, time.Time{} // never: From is there
	}
	return part, time.Time{}
}
