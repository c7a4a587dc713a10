package terminal

import (
	"context"
	"time"

	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// sendEarly sends early repeats until the connection ends.
func (l *link) sendEarly(ctx context.Context, d Datagrams) {
	var r frame.Repeat
	again := time.AfterFunc(time.Hour, func() {
		l.mu.Lock() // otherwise it could fire between the check and the wait
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})
	defer again.Stop()
	for {
		var raw []byte
		l.mu.Lock()
		ok := l.await(ctx, l.changed, func() bool {
			part, later := r.Next(time.Now(), &l.out, d.RTT())
			if !later.IsZero() {
				again.Reset(time.Until(later))
			}
			raw, _ = frame.Append(raw[:0], part) // empty: no repeat
			return len(raw) > 0
		})
		l.mu.Unlock()
		if !ok || d.SendDatagram(raw) != nil {
			return
		}
	}
}
