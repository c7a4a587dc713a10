package bodies

import (
	"net/http"
	"time"
)

// Time is how long a request may take to send its body.
const Time = 30 * time.Second

// InTime gives up on a body that does not come, whoever sends it and
// whether or not anybody reads it. A request without one gets no deadline: over
// HTTP/1.1 the server reads on to see whether the client has left, and would take
// a deadline that passes for that. Where there is a body it begins to do so at
// its end, and clears the deadline then.
func InTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(Time)) // of the connection: the machine's own clock
		}
		next.ServeHTTP(w, r)
	})
}
