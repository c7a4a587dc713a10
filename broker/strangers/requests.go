package strangers

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

type visitKey struct{}

// visit is a request of a stranger, or of one who may be one.
type visit struct {
	room    *Room
	from    net.Addr
	control *http.ResponseController

	mu    sync.Mutex
	guest *Guest // nil: not counted
	over  bool   // its sender was vouched for, or it is answered
}

// Requests has the requests of strangers be answered within the room. One that shows something
// by which the handler will know its sender is not counted before: the handler calls Vouch
// with the name, or Stay where what was shown is no good. Where it calls neither, as it has
// refused the request for something else, its sender is a stranger. Serve bodies.InTime
// inside.
func (r *Room) Requests(next http.Handler, shows func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		v := &visit{room: r, control: http.NewResponseController(w)}
		if at, err := netip.ParseAddrPort(req.RemoteAddr); err == nil {
			v.from = net.TCPAddrFromAddrPort(at)
		}
		defer v.end()
		if !shows(req) && !v.enter() {
			Refuse(w)
			return
		}
		next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), visitKey{}, v)))
		if req.ProtoMajor == 1 || v.vouched() {
			return
		}
		// What the server would send after the handler, when nobody counts it.
		if v.enter() {
			_ = v.control.Flush()
		} else {
			v.cut()
		}
	})
}

// Stay reports whether there is a place for the request of ctx, whose sender is a stranger
// after all.
func Stay(ctx context.Context) bool {
	v, ok := ctx.Value(visitKey{}).(*visit)
	return !ok || v.enter()
}

// Refuse answers a request for which there is no place. It sends nothing that a client can
// leave unread.
func Refuse(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusTooManyRequests)
}

func (v *visit) enter() bool {
	if v.counted() {
		return true
	}
	guest, ok := v.room.Enter(v.from, v.cut) // without the lock: it may cut another, which may be about to cut this one
	if ok {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.guest = guest
	}
	return ok
}

// vouched says, of one whose handler has returned, that its sender is no stranger.
func (v *visit) vouched() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.over
}

func (v *visit) counted() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.guest != nil
}

// cut breaks off the answer, which somebody may be leaving unread.
func (v *visit) cut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.over {
		_ = v.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// end gives up the place. It may be called again.
func (v *visit) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
	if v.guest != nil {
		v.guest.Leave()
	}
}
