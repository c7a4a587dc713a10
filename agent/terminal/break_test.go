package terminal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Both directions are cut at any place, again and again.
func TestABreakLosesAndDoublesNothing(t *testing.T) {
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) { breaks(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func breaks(t *testing.T, rnd *rand.Rand) {
	said, typed := make([]byte, 200<<10), make([]byte, 150<<10)
	for _, b := range [][]byte{said, typed} {
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
	}
	r := newRelay()
	run, prog := plays(r)
	seed := rnd.Uint64()
	go func() {
		rnd := rand.New(rand.NewPCG(seed, 2))
		for rest := said; len(rest) > 0; {
			n := min(len(rest), 1+rnd.IntN(5000))
			prog.said <- rest[:n]
			rest = rest[n:]
		}
	}()
	in, out, rest, window := frame.NewInflow(0), new(frame.Outflow), typed, uint64(window)
	var heard []byte
	connections, token := 0, "first"
	for len(heard) < len(said) || len(prog.input()) < len(typed) {
		p := <-r.calls
		hello := p.next(t).(frame.Hello)
		if hello.Token != token || hello.From > in.Taken() || hello.Sent < in.Taken() || hello.Taken < out.From() || hello.Taken > out.Sent() {
			t.Fatalf("connection %d: %+v, and %d are taken, %d to %d sent", connections, hello, in.Taken(), out.From(), out.Sent())
		}
		connections++
		token = string(rune('a' + connections%26))
		if rnd.IntN(2) == 0 { // another relay, which does not know what the previous relay allowed
			in, window = frame.NewInflow(in.Taken()), uint64(1+rnd.IntN(9000))
		}
		p.send(t, frame.Welcome{Version: 1, Taken: in.Taken(), Limit: in.Allow(window).Limit, Token: token})
		ok(t, out.Acked(frame.Ack{Taken: hello.Taken, Limit: hello.Taken}))
		again, err := out.Resend(hello.Taken)
		ok(t, err)
		go func() {
			for _, f := range again {
				raw, _ := frame.Append(nil, f)
				if _, err := p.Write(raw); err != nil {
					return
				}
			}
		}()
		sending := make(chan frame.Frame, 100)
		go func() {
			for f := range sending {
				raw, _ := frame.Append(nil, f)
				_, _ = p.Write(raw)
			}
		}()
		synctest.Wait()
		for range 1 + rnd.IntN(12) {
			f, err := p.reader.Next()
			if err != nil {
				t.Fatal(err)
			}
			switch f := f.(type) {
			case frame.Data:
				fresh, err := in.Take(f)
				ok(t, err)
				heard = append(heard, fresh...)
				sending <- in.Allow(window)
			case frame.Ack:
				ok(t, out.Acked(f))
				if n := min(len(rest), out.Room(), 1+rnd.IntN(9000)); n > 0 {
					d := out.Add(rest[:n])
					d.Bytes, rest = bytes.Clone(d.Bytes), rest[n:]
					sending <- d
				}
			}
			if len(heard) == len(said) && len(prog.input()) == len(typed) {
				break
			}
		}
		close(sending)
		p.Close()
		synctest.Wait()
	}
	r.down = func() error { return errors.New("gone") }
	run.stop()
	run.end(t, CodeClosed)
	if !bytes.Equal(heard, said) || prog.input() != string(typed) {
		t.Errorf("%d of %d bytes were heard, %d of %d typed", len(heard), len(said), len(prog.input()), len(typed))
	}
	if connections < 5 {
		t.Errorf("there were only %d connections", connections)
	}
}
