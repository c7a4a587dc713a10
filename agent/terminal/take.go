package terminal

import (
	"context"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// read receives frames until the connection ends. It waits only for the stream, so that an
// interrupt passes even if the program takes no input and the other side no output.
func (l *link) read(ctx context.Context) error {
	for {
		f, err := l.reader.Next()
		if err != nil {
			return judge(err)
		}
		if bye, ok := f.(frame.Bye); ok {
			return l.goodbye(bye)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := l.take(f); err != nil {
			return judge(err)
		}
	}
}

func (l *link) take(f frame.Frame) error {
	if sig, ok := f.(frame.Signal); ok {
		_ = l.program.Signal(sig.Name) // without a foreground process the signal is lost, as at any terminal
		return nil
	}
	l.mu.Lock()
	defer l.given.Broadcast()
	defer l.changed.Broadcast()
	defer l.mu.Unlock()
	l.heard = time.Now()
	switch f := f.(type) {
	case frame.Data:
		fresh, err := l.in.Take(f)
		if !l.inputEnded {
			l.queue = append(l.queue, fresh...)
		}
		return err
	case frame.Ack:
		return l.out.Acked(f)
	case frame.EOF:
		_, err := l.in.End(f)
		return err
	case frame.Resize:
		l.size = &f
	case frame.Ping:
		l.pong = &frame.Pong{Nonce: f.Nonce}
	case frame.Pong:
	default:
		return unexpected(f)
	}
	return nil
}

// readDatagrams receives early data. Out-of-order data and invalid frames are dropped, because the
// same data also comes over the stream: a truncated datagram is no reason to end a session.
func (l *link) readDatagrams(ctx context.Context, d Datagrams) error {
	for {
		raw, err := d.ReceiveDatagram(ctx)
		if err != nil {
			return nil // the stream reports the error
		}
		f, err := frame.Parse(raw)
		if err != nil {
			continue
		}
		switch f.(type) {
		case frame.Data, frame.Ack:
		default:
			return fault{error: unexpected(f)}
		}
		if err := l.take(f); err != nil && taskcatalog.CodeOf(err, "") != frame.CodeGap {
			return judge(err)
		}
	}
}
