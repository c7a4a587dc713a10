package adminapi

import (
	"net/http"
	"time"
)

// bodyTime bounds how long a request may take to send its body.
const bodyTime = 30 * time.Second

// bodiesInTime gives up on a body that does not come, whoever sends it and
// whether or not anybody reads it. A request without one gets no deadline: over
// HTTP/1.1 the server reads on to see whether the client has left, and would take
// a deadline that passes for that. Where there is a body it begins to do so at
// its end, and clears the deadline then.
func bodiesInTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // of the connection: the machine's own clock
		}
		next.ServeHTTP(w, r)
	})
}
