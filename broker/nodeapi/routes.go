package nodeapi

import (
	"net/http"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/bodies"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// admit says which peers a route lets in.
type admit int

const (
	anyone   admit = iota // no certificate needed
	member                // a node, with a certificate in force
	polling               // a member that may be told to come again later
	renewing              // a node, also with an expired certificate
)

// routes is the index of the package.
var routes = []struct {
	method, path string
	admit        admit
	handle       func(*API, *call) (any, error)
}{
	{"POST", "/internal/v1/nodes/enroll", anyone, (*API).enroll},
	{"POST", "/internal/v1/nodes/{id}/renew", renewing, (*API).renew},
	{"GET", "/internal/v1/nodes/{id}/tasks/wait", polling, (*API).wait},
	{"POST", "/internal/v1/nodes/{id}/tasks/{task_id}/progress", member, (*API).progress},
	{"POST", "/internal/v1/nodes/{id}/tasks/{task_id}/result", member, (*API).result},
	{"POST", "/internal/v1/nodes/{id}/tasks/{task_id}/credentials/mint", member, (*API).mint},
	{"POST", "/internal/v1/nodes/{id}/terminals/{session_id}/gone", member, (*API).terminalGone},
	{"GET", "/internal/v1/packages/sha256/{digest}", anyone, (*API).packages},
}

// call is one request on its way through a handler.
type call struct {
	w    http.ResponseWriter
	r    *http.Request
	peer *pki.Peer // nil where a route admits anyone
	node *contact  // the peer's contact; nil if before is set
	// before says that the peer's certificate is from before the last restore. The request is then
	// a renewal.
	before    bool
	arrivedAt time.Time
}

// streamed is returned by a handler that wrote its own answer.
var streamed = new(struct{})

// Handler serves the routes.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.HandleFunc(route.method+" "+route.path, func(w http.ResponseWriter, r *http.Request) {
			c := &call{w: w, r: r, arrivedAt: a.c.Now()}
			value, err := a.identify(c, route.admit)
			if err == nil {
				value, err = route.handle(a, c)
			}
			a.answer(c, value, err)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if allowed := bodies.Allowed(mux, r); allowed != "" {
			w.Header().Set("Allow", allowed)
			a.answer(&call{w: w, r: r}, nil, broker.Errorf(broker.NotFound, string(bodies.CodeMethod), "%s", bodies.NotAllowed(r, allowed)))
			return
		}
		a.answer(&call{w: w, r: r}, nil, broker.Errorf(broker.NotFound, "route_unknown", "cannot %s %s: there is no such route",
			taskcatalog.Clean(r.Method, 16), taskcatalog.Clean(r.URL.Path, 200)))
	})
	return bodies.InTime(bodies.OnlyText(mux))
}

// decode reads the body of a request. A refused body is audited.
func (c *call) decode(v any) error {
	if c.r.ContentLength > wire.MaxBody {
		return taskcatalog.Errorf(taskcatalog.CodeTooLarge, "body of %d bytes is larger than %d", c.r.ContentLength, wire.MaxBody)
	}
	return wire.Decode(c.r.Body, v)
}

// answer writes a handler's result: a value as 200, nothing as 204, an error as a problem. No
// answer may be cached.
func (a *API) answer(c *call, value any, err error) {
	if value == streamed {
		return
	}
	h := c.w.Header()
	h.Set("Cache-Control", "no-store")
	status, contentType := http.StatusOK, "application/json"
	if err != nil {
		problem := a.problem(c, err)
		value, status, contentType = problem, problem.Status, "application/problem+json"
	}
	if value == nil {
		c.w.WriteHeader(http.StatusNoContent)
		return
	}
	raw, err := taskcatalog.Encode(value)
	if err != nil {
		a.c.Log.Error("cannot write an answer", logRoute(c), logError(err))
		c.w.WriteHeader(http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", contentType)
	c.w.WriteHeader(status)
	_, _ = c.w.Write(raw) // a node that has left gets no answer
}

// Routes are the methods and patterns of all routes, as metrics name them.
func Routes() []string {
	all := make([]string, len(routes))
	for i, r := range routes {
		all[i] = r.method + " " + r.path
	}
	return all
}
