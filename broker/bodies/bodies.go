package bodies

import (
	"net/http"
	"time"
)

// Time bounds how long a client may take to send the body of a request.
const Time = 30 * time.Second

// InTime ends an answer that the client does not read, and a body that does not arrive, for every
// client and whether or not the handler reads the body. A request without a body gets no read
// deadline: over HTTP/1.1 the server keeps reading to notice that the client has left, and would
// mistake an expired deadline for that. If the request has a body, the server begins this reading
// at the end of the body, and clears the deadline then.
func InTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &timed{ResponseWriter: w, control: http.NewResponseController(w), within: Take}
		if r.ContentLength != 0 { // over HTTP/2 a request without a body has an empty body
			answer.within += Time                                    // the server reads the rest of the body before it writes
			_ = answer.control.SetReadDeadline(time.Now().Add(Time)) // a connection's deadlines use the system's clock
		}
		if r.ProtoMajor == 1 {
			answer.allowed() // clears the deadline of the previous answer on this connection
		}
		next.ServeHTTP(answer, r)
		answer.own = false
		answer.allow() // for the bytes that the server sends after the handler
	})
}
