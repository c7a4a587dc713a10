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

// visit is a request of a stranger or of a possible stranger.
type visit struct {
	room    *Room
	from    net.Addr
	control *http.ResponseController

	mu    sync.Mutex
	guest *Guest // nil: not counted
	over  bool   // the sender is vouched for, or the request is answered
}

// Requests answers the requests of strangers within the room. A request that shows a credential is
// not counted at first: the handler calls Vouch with the sender's name, or Stay if the credential
// is invalid. If the handler calls neither, because it refused the request for another reason, the
// sender counts as a stranger. Serve bodies.InTime inside.
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
		// The server sends the buffered answer after the handler, when the request is no longer
		// counted.
		if v.enter() {
			_ = v.control.Flush()
		} else {
			v.cut()
		}
	})
}

// Stay reports whether there is a place for the request of ctx, whose sender turned out to be a
// stranger.
func Stay(ctx context.Context) bool {
	v, ok := ctx.Value(visitKey{}).(*visit)
	return !ok || v.enter()
}

// Refuse answers a request without a place. The answer has no body that a client could leave
// unread.
func Refuse(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusTooManyRequests)
}

func (v *visit) enter() bool {
	if v.counted() {
		return true
	}
	guest, ok := v.room.Enter(v.from, v.cut) // without the lock: Enter may cut another visit, which may be about to cut this one
	if ok {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.guest = guest
	}
	return ok
}

// vouched says, after the handler has returned, whether the sender is vouched for.
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

// cut aborts the answer, which the client may be leaving unread.
func (v *visit) cut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.over {
		_ = v.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// end gives up the place. end may be called again.
func (v *visit) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
	if v.guest != nil {
		v.guest.Leave()
	}
}
