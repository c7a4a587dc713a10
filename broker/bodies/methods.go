package bodies

import (
	"net/http"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// CodeMethod is the code of a request whose path is known only with other methods.
const CodeMethod taskcatalog.Code = "method_not_allowed"

// Allowed returns the methods that routes has for a request's path, in the form of the header
// Allow; empty: no route has the path. Patterns without a method do not count.
func Allowed(routes *http.ServeMux, r *http.Request) string {
	var allowed []string
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodPut} {
		_, pattern := routes.Handler(&http.Request{Method: method, Host: r.Host, URL: r.URL})
		if !strings.HasPrefix(pattern, method+" ") {
			continue
		}
		allowed = append(allowed, method)
		if method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	return strings.Join(allowed, ", ")
}

// Get registers a handler for GET and HEAD of a path, and answers every other method with 405.
func Get(routes *http.ServeMux, path string, handler http.Handler) {
	routes.Handle(http.MethodGet+" "+path, handler)
	routes.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, CodeMethod, NotAllowed(r, "GET, HEAD"))
	})
}

// NotAllowed returns the message for a method that is not allowed, with the allowed methods.
func NotAllowed(r *http.Request, allowed string) string {
	return "cannot answer " + taskcatalog.Clean(r.Method, 16) + " " + taskcatalog.Clean(r.URL.Path, 200) + ": the path takes only " +
		allowed
}
