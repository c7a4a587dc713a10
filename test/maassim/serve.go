package maassim

import (
	"crypto/sha1"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// ServeHTTP serves the region's web API and its metadata service on one port.
func (r *Region) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.once.Do(r.begin)
	path, ofAPI := strings.CutPrefix(req.URL.Path, apiRoot)
	if ofAPI && !strings.HasSuffix(path, "/") && !strings.HasPrefix(path, "scripts/") {
		a := text(http.StatusNotFound, "Unknown API endpoint: %s.", req.URL.Path)
		a.write(w, r)
		return
	}
	r.routes.ServeHTTP(w, req)
}

// params returns the query's parameters for GET and DELETE, else the body's parameters.
func params(req *http.Request) (url.Values, error) {
	if req.Method == http.MethodGet || req.Method == http.MethodDelete {
		p := req.URL.Query()
		p.Del("op")
		return p, nil
	}
	kind, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if kind == "multipart/form-data" {
		err := req.ParseMultipartForm(16 << 20)
		return req.PostForm, err
	}
	err := req.ParseForm()
	return req.PostForm, err
}

// serve answers an API call: faults before the call, then the call, then faults of the answer.
func (r *Region) serve(w http.ResponseWriter, req *http.Request, path string, res resource) {
	p, err := params(req)
	if err != nil {
		a := text(http.StatusBadRequest, "Unable to parse request: %v", err)
		a.write(w, r)
		return
	}
	op := res[strings.TrimSpace(req.Method+" "+req.URL.Query().Get("op"))]
	if wait := r.slowness(op.name, req); wait > 0 && r.Sleep(req.Context(), wait) != nil {
		panic(http.ErrAbortHandler)
	}
	a := r.answer(req, path, res, op, p)
	if a.code == 0 {
		panic(http.ErrAbortHandler)
	}
	a.write(w, r)
}

func (r *Region) answer(req *http.Request, path string, res resource, op operation, p url.Values) answer {
	defer r.enter()()
	c := &call{Region: r, req: req, params: p}
	if id := req.PathValue("machine"); id != "" {
		if c.machine = r.find(id); c.machine != nil {
			c.about(c.machine)
		}
	} else if m := r.find(p.Get("system_id")); m != nil {
		c.about(m)
	}
	fault := r.strike(onTheWayIn, op.name, c.subject)
	a, stopped := fault.in(c)
	if !stopped {
		a = c.carryOut(path, res, op)
		if fault == nil {
			fault = r.strike(onTheWayOut, op.name, c.subject)
		}
		a = fault.out(a)
		if a.code < 300 && a.header == nil && a.code != 0 {
			a.header = http.Header{"X-Maas-Api-Hash": {fmt.Sprintf("%x", sha1.Sum([]byte(r.Version)))}}
		}
	}
	c.record(op.name, &a, fault.kind())
	if !stopped {
		r.strikeByHand(op.name, c.subject)
	}
	return a
}

// carryOut authenticates the caller, checks the permission and runs the call.
func (c *call) carryOut(path string, res resource, op operation) answer {
	name := c.req.URL.Query().Get("op")
	u, m, refusal := c.authenticate(c.req)
	if refusal != nil {
		return *refusal
	}
	c.user = u
	if op.may != anyone || op.do == nil {
		switch {
		case m != nil || (u != nil && u.inactive):
			return text(http.StatusForbidden, "User is not allowed access to this API.")
		case u == nil && anonymous[path]:
			return unrecognised(c.req.Method, name)
		case u == nil:
			return text(http.StatusUnauthorized, "Forbidden")
		}
	}
	if op.do == nil {
		return c.unserved(res, name)
	}
	if c.req.PathValue("machine") != "" {
		if c.machine == nil {
			kind, _, _ := strings.Cut(path, "/")
			return text(http.StatusNotFound, "No %s matches the given query.",
				map[string]string{"machines": "Machine", "nodes": "Node"}[kind])
		}
	}
	if !op.may.admits(u, c.machine) {
		if c.machine != nil {
			return forbidden()
		}
		return text(http.StatusForbidden, "This method is reserved for admin users.")
	}
	c.caller = u
	defer func() { c.caller = nil }()
	return op.do(c)
}

// unserved answers an unknown method or op of a path.
func (c *call) unserved(res resource, op string) answer {
	if op != "" {
		return unrecognised(c.req.Method, op)
	}
	var allowed []string
	for key := range res {
		method, _, _ := strings.Cut(key, " ")
		allowed = append(allowed, method)
	}
	slices.Sort(allowed)
	if allowed = slices.Compact(allowed); slices.Contains(allowed, c.req.Method) {
		return unrecognised(c.req.Method, op)
	}
	a := text(http.StatusMethodNotAllowed, "Method Not Allowed")
	a.header = http.Header{"Allow": {strings.Join(allowed, ", ")}}
	return a
}

func unrecognised(method, op string) answer {
	if op == "" {
		op = "None"
	}
	return text(http.StatusBadRequest, "Unrecognised signature: method=%s op=%s", method, op)
}

// admits reports whether the user may perform the operation on the machine, or on the region if m
// is nil.
func (a access) admits(u *user, m *machine) bool {
	switch a {
	case anyone, view:
		return true
	case adminRead:
		return u.superuser
	case lock:
		return u.superuser || (m != nil && m.owner == u.name)
	case edit:
		return !m.locked && (u.superuser || m.owner == u.name || m.owner == "")
	default:
		return !m.locked && u.superuser
	}
}
