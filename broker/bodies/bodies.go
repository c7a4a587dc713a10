package bodies

import (
	"net/http"
	"time"
)

// Time is how long a request may take to send its body.
const Time = 30 * time.Second

// InTime gives up on an answer that is not taken, and on a body that does not come,
// whoever sends it and whether or not anybody reads it. A request without one gets no deadline: over
// HTTP/1.1 the server reads on to see whether the client has left, and would take
// a deadline that passes for that. Where there is a body it begins to do so at
// its end, and clears the deadline then.
func InTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &timed{ResponseWriter: w, control: http.NewResponseController(w), within: Take}
		if r.ContentLength != 0 { // over HTTP/2 a request without a body has one that is empty
			answer.within += Time                                    // the server reads what is left of it before it writes
			_ = answer.control.SetReadDeadline(time.Now().Add(Time)) // of the connection: the machine's own clock
		}
		if r.ProtoMajor == 1 {
			answer.allowed() // what the answer before it on this connection had
		}
		next.ServeHTTP(answer, r)
		answer.own = false
		answer.allow() // what the server sends after the handler
	})
}
