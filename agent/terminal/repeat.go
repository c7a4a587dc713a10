package terminal

import (
	"context"
	"time"

	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Bounds of the early repeat: what is longer than a keystroke's answer is as well served by
// the stream, and a link that bears nothing is not helped by more of it.
const (
	repeatMax    = 1000 // bytes, in all, that are not acknowledged; one datagram
	repeatTimes  = 5
	repeatPause  = 10 * time.Millisecond // at the least, between any two
	repeatPerRTT = 4
)

// repeat is when what was not acknowledged goes out as a datagram: at once when there is
// something new, and again at growing pauses.
type repeat struct {
	upTo  uint64 // of the output that was sent so
	times int    // since there was something new
	pause time.Duration
	last  time.Time
}

// next gives what to send now, or else when to look again: zero, if not before something
// changes.
func (r *repeat) next(now time.Time, out *frame.Outflow, rtt time.Duration) (frame.Data, time.Time) {
	missing := out.Sent() - out.From()
	if missing == 0 || missing > repeatMax {
		return frame.Data{}, time.Time{}
	}
	if out.Sent() != r.upTo {
		r.upTo, r.times, r.pause = out.Sent(), 0, repeatPause
	}
	if r.times > repeatTimes {
		return frame.Data{}, time.Time{}
	}
	if due := r.last.Add(r.pause); now.Before(due) {
		return frame.Data{}, due
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
		return frame.Data{}, time.Time{} // never: From is there
	}
	return part, time.Time{}
}

// sendEarly repeats until the connection ends.
func (l *link) sendEarly(ctx context.Context, d Datagrams) {
	var r repeat
	again := time.AfterFunc(time.Hour, func() {
		l.mu.Lock() // or it could be between looking and waiting
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})
	defer again.Stop()
	for {
		var raw []byte
		l.mu.Lock()
		ok := l.await(ctx, func() bool {
			part, later := r.next(time.Now(), &l.out, d.RTT())
			if !later.IsZero() {
				again.Reset(time.Until(later))
			}
			raw, _ = frame.Append(raw[:0], part) // nothing is none
			return len(raw) > 0
		})
		l.mu.Unlock()
		if !ok || d.SendDatagram(raw) != nil {
			return
		}
	}
}
