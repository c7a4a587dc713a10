package k8s

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
)

type object = map[string]any

// apiServer plays the part of an API server that the adapter asks, with the words and statuses of
// Kubernetes 1.35 and 1.36 (k8s.io/apimachinery's errors, the eviction of pkg/registry/core/pod). It is no proof of
// what a real one does.
type apiServer struct {
	nodes   map[string]object
	pods    []object
	secrets map[string]object
	// budgets name a budget for each pod that it keeps; two budgets: "two".
	budgets map[string]string
	asked   []string
	uids    int
	// answer replaces an answer; false: the server answers itself.
	answer func(w http.ResponseWriter, r *http.Request) bool
	// evicted is what happens to a pod that goes: it vanishes at once unless it lingers.
	lingers bool
	// stored changes a secret on its way to the store, as an admission webhook can.
	stored func(object)
	// expired continue tokens are answered with 410, as often.
	expired int
}

func say(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// fails answers with a Status as the API server does.
func fails(w http.ResponseWriter, code int, reason, message string, details object) {
	body := object{"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Failure", "message": message, "code": code}
	if reason != "" {
		body["reason"] = reason
	}
	if details != nil {
		body["details"] = details
	}
	say(w, code, body)
}

func notFound(w http.ResponseWriter, resource, name string) {
	fails(w, http.StatusNotFound, "NotFound", fmt.Sprintf("%s %q not found", resource, name), object{"name": name, "kind": resource})
}

func (f *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	f.asked = append(f.asked, r.Method+" "+r.URL.RequestURI())
	var body object
	_ = json.Unmarshal(raw, &body)
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/")
	switch {
	case f.answer != nil && f.answer(w, r):
	case r.Header.Get("Authorization") != "Bearer planted-token":
		fails(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized", nil)
	case parts[0] == "nodes" && len(parts) == 2:
		f.node(w, r, parts[1], body)
	case len(parts) == 1 && parts[0] == "pods" && r.Method == http.MethodGet:
		f.list(w, r)
	case len(parts) == 3 && parts[2] == "secrets" && r.Method == http.MethodPost:
		f.create(w, body)
	case len(parts) == 4 && parts[2] == "secrets" && r.Method == http.MethodDelete:
		if f.secrets[parts[3]] == nil {
			notFound(w, "secrets", parts[3])
			return
		}
		delete(f.secrets, parts[3])
		say(w, http.StatusOK, object{"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Success", "details": object{"name": parts[3], "kind": "secrets"}})
	case len(parts) == 5 && parts[4] == "eviction" && r.Method == http.MethodPost:
		f.evict(w, parts[1]+"/"+parts[3], body)
	case len(parts) == 4 && parts[2] == "pods" && r.Method == http.MethodDelete:
		f.deletePod(w, parts[1]+"/"+parts[3], body)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "404 page not found\n")
	}
}

func meta(o object) object { return o["metadata"].(object) }

// precondition reports whether the preconditions of a deletion hold, and answers with a conflict if not: with the
// kind of the object where other answers have the resource (rest.BeforeDelete, and the eviction itself).
func precondition(w http.ResponseWriter, kind string, o, options object) bool {
	if nested, ok := options["deleteOptions"].(object); ok {
		options = nested
	}
	want, _ := options["preconditions"].(object)
	for key, called := range map[string]string{"uid": "UID", "resourceVersion": "ResourceVersion"} {
		if v, ok := want[key]; ok && v != meta(o)[key] {
			name := meta(o)["name"].(string)
			fails(w, http.StatusConflict, "Conflict", fmt.Sprintf("Operation cannot be fulfilled on %[1]s %[2]q: the %[3]s in the precondition (%[4]v) "+
				"does not match the %[3]s in record (%[5]v). The object might have been", kind, name, called, v, meta(o)[key]), object{"name": name, "kind": kind})
			return false
		}
	}
	return true
}

func (f *apiServer) node(w http.ResponseWriter, r *http.Request, name string, body object) {
	n := f.nodes[name]
	switch {
	case n == nil:
		notFound(w, "nodes", name)
	case r.Method == http.MethodGet:
		say(w, http.StatusOK, n)
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") == "application/merge-patch+json":
		if meta(body)["uid"] != meta(n)["uid"] {
			fails(w, http.StatusConflict, "Conflict", fmt.Sprintf("Operation cannot be fulfilled on nodes %q: Precondition failed: UID", name), object{"name": name, "kind": "nodes"})
			return
		}
		n["spec"].(object)["unschedulable"] = body["spec"].(object)["unschedulable"]
		meta(n)["annotations"] = meta(body)["annotations"]
		f.uids++
		meta(n)["resourceVersion"] = strconv.Itoa(f.uids)
		say(w, http.StatusOK, n)
	case r.Method == http.MethodDelete:
		if precondition(w, "Node", n, body) {
			delete(f.nodes, name)
			say(w, http.StatusOK, object{"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Success", "details": object{"name": name, "kind": "nodes", "uid": meta(n)["uid"]}})
		}
	default:
		fails(w, http.StatusUnsupportedMediaType, "UnsupportedMediaType", "the body of the request was in an unknown format", nil)
	}
}

func (f *apiServer) list(w http.ResponseWriter, r *http.Request) {
	limit, _ := strconv.Atoi(r.FormValue("limit"))
	from, _ := strconv.Atoi(r.FormValue("continue"))
	if from > 0 && f.expired > 0 {
		f.expired--
		body := object{
			"kind": "Status", "apiVersion": "v1", "metadata": object{"continue": "again"}, "status": "Failure", "reason": "Expired", "code": http.StatusGone,
			"message": "The provided continue parameter is too old to display a consistent list result.",
		}
		say(w, http.StatusGone, body)
		return
	}
	node := strings.TrimPrefix(r.FormValue("fieldSelector"), "spec.nodeName=")
	var on []object
	for _, p := range f.pods {
		if p["spec"].(object)["nodeName"] == node {
			on = append(on, p)
		}
	}
	list := object{"resourceVersion": "7"}
	if limit > 0 && len(on) > from+limit {
		list["continue"], list["remainingItemCount"] = strconv.Itoa(from+limit), len(on)-from-limit
		on = on[:from+limit]
	}
	say(w, http.StatusOK, object{"kind": "PodList", "apiVersion": "v1", "metadata": list, "items": append([]object{}, on[from:]...)})
}

func (f *apiServer) create(w http.ResponseWriter, body object) {
	name := meta(body)["name"].(string)
	if f.secrets[name] != nil {
		fails(w, http.StatusConflict, "AlreadyExists", fmt.Sprintf("secrets %q already exists", name), object{"name": name, "kind": "secrets"})
		return
	}
	f.uids++
	meta(body)["uid"] = strconv.Itoa(f.uids)
	if f.stored != nil {
		f.stored(body)
	}
	f.secrets[name] = body
	say(w, http.StatusCreated, body)
}

func (f *apiServer) find(name string) int {
	return slices.IndexFunc(f.pods, func(p object) bool { return meta(p)["namespace"].(string)+"/"+meta(p)["name"].(string) == name })
}

// goes deletes a pod, at once or after its grace.
func (f *apiServer) goes(i int, grace any) {
	if f.lingers && grace == nil {
		meta(f.pods[i])["deletionTimestamp"] = now.Add(30 * time.Second).Format(time.RFC3339)
		return
	}
	f.pods = slices.Delete(f.pods, i, i+1)
}

func (f *apiServer) evict(w http.ResponseWriter, name string, body object) {
	i := f.find(name)
	_, short, _ := strings.Cut(name, "/")
	switch {
	case body["apiVersion"] != "policy/v1" || body["kind"] != "Eviction" || meta(body)["name"] != short:
		fails(w, http.StatusBadRequest, "BadRequest", "name in URL does not match name in Eviction object", nil)
	case i < 0:
		notFound(w, "pods", short)
	case f.budgets[name] == "two":
		// The handler creates the eviction, and says in the same answer that it failed.
		say(w, http.StatusCreated, object{
			"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Failure", "code": http.StatusInternalServerError,
			"message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		})
	case f.budgets[name] != "":
		fails(w, http.StatusTooManyRequests, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", object{"causes": []object{
			{"reason": "DisruptionBudget", "message": fmt.Sprintf("The disruption budget %s needs 2 healthy pods and has 2 currently", f.budgets[name])},
		}})
	case precondition(w, "Pod", f.pods[i], body):
		f.goes(i, nil)
		say(w, http.StatusCreated, object{"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Success", "code": http.StatusCreated})
	}
}

func (f *apiServer) deletePod(w http.ResponseWriter, name string, body object) {
	i := f.find(name)
	if i < 0 {
		_, short, _ := strings.Cut(name, "/")
		notFound(w, "pods", short)
		return
	}
	if p := f.pods[i]; precondition(w, "Pod", p, body) {
		f.goes(i, body["gracePeriodSeconds"])
		say(w, http.StatusOK, p)
	}
}

// aNode adds a node with a value of Ready.
func (f *apiServer) aNode(name, ready string) object {
	f.uids++
	n := object{
		"kind": "Node", "apiVersion": "v1",
		"metadata": object{"name": name, "uid": "u-" + strconv.Itoa(f.uids), "resourceVersion": strconv.Itoa(f.uids), "labels": object{"kubernetes.io/hostname": name, "hostler.dev/node": "n-7"}},
		"spec":     object{"podCIDR": "10.244.1.0/24"},
		"status":   object{"conditions": []object{{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready, "reason": "KubeletReady"}}},
	}
	f.nodes[name] = n
	return n
}

// aPod adds a running pod on a node; owner: the kind of its controller, "" for none.
func (f *apiServer) aPod(name, node, owner string) object {
	f.uids++
	namespace, short, _ := strings.Cut(name, "/")
	m := object{"name": short, "namespace": namespace, "uid": "u-" + strconv.Itoa(f.uids)}
	if owner != "" {
		version := "apps/v1"
		if owner == "Job" {
			version = "batch/v1"
		}
		m["ownerReferences"] = []object{{"apiVersion": version, "kind": owner, "name": "x", "uid": "y", "controller": true, "blockOwnerDeletion": true}}
	}
	p := object{"metadata": m, "spec": object{"nodeName": node, "containers": []object{{"name": "c"}}}, "status": object{"phase": "Running"}}
	f.pods = append(f.pods, p)
	return p
}

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func start(t *testing.T) (*apiServer, *Cluster) {
	t.Helper()
	f := &apiServer{nodes: map[string]object{}, secrets: map[string]object{}, budgets: map[string]string{}}
	s := httptest.NewTLSServer(f)
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	c := broker.Cluster{
		Name: "lab", Backend: "k8s", URL: s.URL, CACert: string(ca), Controller: "api.example:6443", JoinAuth: "bootstrap-token",
	}
	return f, New(c, cluster.Access{Token: "planted-token"}).(*Cluster)
}

// orders are the requests that change something.
func (f *apiServer) orders() []string {
	return slices.DeleteFunc(slices.Clone(f.asked), func(a string) bool { return strings.HasPrefix(a, "GET ") })
}
