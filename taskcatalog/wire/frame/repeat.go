package frame

import "time"

// Bounds of early repeats. Longer data than a keystroke or its answer is served equally well by the
// stream, and more datagrams do not help a link that delivers nothing.
const (
	repeatMax    = 1000 // total unacknowledged bytes; one datagram
	repeatTimes  = 5
	repeatPause  = 10 * time.Millisecond // least pause between any two
	repeatPerRTT = 4
)

// Repeat schedules datagrams with a direction's unacknowledged bytes, in addition to the stream: at
// once for new bytes, and again at growing pauses. The zero value is for a new connection.
type Repeat struct {
	upTo  uint64 // position of the last repeated byte
	times int    // repeats since there were new bytes
	pause time.Duration
	last  time.Time
}

// Next returns the Data to send now, or the time of the next call; the zero time means not before a
// change. The frame's bytes are valid until the Outflow's next Add or Acked.
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
