package terminal

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Limits for detecting a connection that died silently, and for sending a last word.
const (
	pingAfter  = 3 * time.Second
	deadAfter  = 10 * time.Second
	lookEvery  = time.Second
	byeTimeout = 2 * time.Second
)

// link is a connection that got a Welcome. It has no send queue: the next frames are derived from
// the session's state each time the stream takes more, so that nothing accumulates.
type link struct {
	*session
	way    way // by which the session came here
	pass   Pass
	conn   Conn
	reader *frame.Reader

	// Guarded by the session's mu.
	repeats bool
	heard   time.Time
	at      uint64     // end of the output sent over this stream
	lastAck *frame.Ack // the last Ack sent; nil: none yet
	pong    *frame.Pong
	ping    bool
	exited  bool // the Exit was sent over this stream
}

// serve relays until the connection breaks (nil) or the session is over.
func (l *link) serve(parent context.Context) error {
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	var writing, others sync.WaitGroup
	writing.Go(func() {
		err := l.write(ctx)
		if !errors.As(err, new(fault)) {
			sleep(ctx, byeTimeout) // the reader may still receive the reason
		}
		stop(err)
	})
	others.Go(func() {
		stop(l.read(ctx))
		// Unread data would reset a TCP connection, and the Bye would be lost.
		_, _ = io.Copy(io.Discard, l.conn)
	})
	others.Go(func() { stop(l.watch(ctx)) })
	others.Go(func() {
		select {
		case <-l.way.moved: // the relay sees the end of the connection
			stop(errMoved)
		case <-ctx.Done():
		}
	})
	if d, ok := l.conn.(Datagrams); ok {
		others.Go(func() {
			if err := l.readDatagrams(ctx, d); err != nil {
				stop(err)
			}
		})
		if l.repeats {
			others.Go(func() { l.sendEarly(ctx, d) })
		}
	}
	<-ctx.Done()
	end, f := error(nil), fault{heard: true}
	switch {
	case errors.As(context.Cause(ctx), &f):
		end = f.error
	case parent.Err() != nil:
		end, f.heard = closed(parent), false
	}
	late := time.AfterFunc(byeTimeout, func() { l.conn.Close() })
	defer late.Stop()
	if f.heard {
		l.conn.Close()
	}
	writing.Wait()
	if !f.heard {
		l.bye(end)
	}
	others.Wait()
	l.conn.Close()
	return end
}

// refuse ends a session that has no program.
func (l *link) refuse(err error) {
	late := time.AfterFunc(byeTimeout, func() { l.conn.Close() })
	defer late.Stop()
	l.bye(err)
	_, _ = io.Copy(io.Discard, l.conn)
	l.conn.Close()
}

// bye sends this side's last frame; the relay then closes the connection.
func (l *link) bye(err error) {
	l.mu.Lock()
	bye := frame.Bye{Code: taskcatalog.CodeOf(err, CodeStartFailed), Text: taskcatalog.Clean(err.Error(), 500)}
	if l.exit != nil {
		bye.Status = &l.exit.Status
	}
	l.mu.Unlock()
	raw, err := frame.Append(nil, bye)
	if err == nil {
		_, err = l.conn.Write(raw)
	}
	if err == nil {
		err = l.conn.CloseWrite()
	}
	if err != nil {
		l.conn.Close()
	}
}

// watch pings a silent relay, and ends the connection if no answer comes. The transport may not
// notice, because a stuck relay keeps its transport alive.
func (l *link) watch(ctx context.Context) error {
	for asked := time.Now(); !sleep(ctx, lookEvery); {
		l.mu.Lock()
		quiet, ended := time.Since(l.heard), l.exited
		if quiet >= pingAfter && time.Since(asked) >= pingAfter {
			l.ping, asked = true, time.Now()
		}
		l.mu.Unlock()
		l.changed.Broadcast()
		if quiet >= deadAfter && !ended { // a relay that has the Exit may still be showing the output
			return errors.New("the relay sends no more data")
		}
	}
	return context.Cause(ctx)
}

// write sends the due frames, until the connection ends.
func (l *link) write(ctx context.Context) error {
	buf := make([]byte, 0, frame.Largest+256)
	for {
		var err error
		l.mu.Lock()
		ok := l.await(ctx, l.changed, func() bool {
			buf, err = l.due(buf[:0])
			return err != nil || len(buf) > 0
		})
		l.mu.Unlock()
		switch {
		case !ok:
			return context.Cause(ctx)
		case err != nil:
			return fault{error: err}
		}
		if _, err := l.conn.Write(buf); err != nil {
			return err
		}
	}
}

// due appends the next frames to send: answers, acknowledgements, and a frame of output.
func (l *link) due(buf []byte) ([]byte, error) {
	if l.exited { // nothing follows the Exit
		return buf, nil
	}
	var frames []frame.Frame
	if l.pong != nil {
		frames = append(frames, *l.pong)
		l.pong = nil
	}
	if l.ping {
		frames = append(frames, frame.Ping{})
		l.ping = false
	}
	// More input is allowed as soon as the program has taken the queued input.
	ack := l.in.Allow(uint64(inputWindow - len(l.queue)))
	if l.lastAck == nil || ack.Taken != l.lastAck.Taken || ack.Limit-l.lastAck.Limit >= inputWindow/2 {
		frames = append(frames, ack)
		l.lastAck = &ack
	}
	l.at = max(l.at, l.out.From()) // output acknowledged from datagrams is not sent again
	part, err := l.out.Part(l.at)
	if err != nil {
		return buf, err
	}
	if len(part.Bytes) > 0 {
		frames = append(frames, part)
		l.at += uint64(len(part.Bytes))
	}
	if l.exit != nil && !l.exited && l.at == l.out.Sent() {
		frames = append(frames, frame.EOF{Offset: l.at}, *l.exit)
		l.exited = true
	}
	for _, f := range frames {
		if buf, err = frame.Append(buf, f); err != nil {
			return buf, err
		}
	}
	return buf, nil
}
