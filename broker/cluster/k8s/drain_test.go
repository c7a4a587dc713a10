package k8s

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/cluster"
)

const reason = "hostler: operation op-1 (k8s.node.leave@v1)"

func drain(t *testing.T, c *Cluster, at time.Time, force time.Duration) (cluster.Membership, error) {
	t.Helper()
	return c.Drain(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}, cluster.DrainOrder{Reason: reason, At: at, ForceAfter: force})
}

func (f *apiServer) names() string {
	var all []string
	for _, p := range f.pods {
		all = append(all, meta(p)["name"].(string))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// A drain cordons the node and evicts what others would start again; what belongs to the node stays.
func TestADrainEvictsWhatGoesElsewhere(t *testing.T) {
	f, c := start(t)
	f.aNode("gpu-7", "True")
	f.aPod("team/web-1", "gpu-7", "ReplicaSet")
	f.aPod("team/train-1", "gpu-7", "Job")
	f.aPod("kube-system/kube-proxy-x", "gpu-7", "DaemonSet")
	meta(f.aPod("kube-system/static-gpu-7", "gpu-7", "Node"))["annotations"] = object{mirror: "x"}
	f.aPod("team/done", "gpu-7", "Job")["status"] = object{"phase": "Succeeded"}
	f.aPod("team/other", "gpu-8", "ReplicaSet")
	is, err := drain(t, c, now, 0)
	if err != nil || is.State != cluster.Draining || is.Words != "Ready,SchedulingDisabled; pods: 2" || is.Reason != reason || len(is.Cut) > 0 {
		t.Errorf("%+v %v", is, err)
	}
	if got := f.names(); got != "done kube-proxy-x other static-gpu-7" {
		t.Errorf("there are %s", got)
	}
	f.asked = nil
	if is, err := drain(t, c, now.Add(time.Minute), 0); err != nil || is.State != cluster.Drained || len(f.orders()) > 0 {
		t.Errorf("%+v %v, %v", is, err, f.asked)
	}
	if is, err := c.Membership(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}); err != nil || is.State != cluster.Drained || is.Reason != reason {
		t.Errorf("%+v %v", is, err)
	}
}

// What keeps a pod is named: a budget, two budgets, no controller, a namespace that ends, a busy server.
func TestWhatKeepsAPodIsNamed(t *testing.T) {
	for name, row := range map[string]struct {
		change func(f *apiServer)
		words  string
	}{
		"a budget":       {func(f *apiServer) { f.budgets["team/db-0"] = "db" }, "; pods: 1; PodDisruptionBudget team/db keeps pod team/db-0"},
		"two budgets":    {func(f *apiServer) { f.budgets["team/db-0"] = "two" }, "; pods: 1; pod team/db-0: This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."},
		"no controller":  {func(f *apiServer) { delete(meta(f.pods[0]), "ownerReferences") }, "; pods: 1; pod team/db-0 has no controller"},
		"an end already": {func(f *apiServer) { meta(f.pods[0])["deletionTimestamp"] = now.Format(time.RFC3339) }, "; pods: 1"},
		"a busy budget": {func(f *apiServer) {
			f.refuse(http.StatusTooManyRequests, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", object{"retryAfterSeconds": 10, "causes": []object{
				{"reason": "DisruptionBudget", "message": "The disruption budget db is still being processed by the server."},
			}})
		}, "; pods: 1; PodDisruptionBudget team/db keeps pod team/db-0"},
		"a later budget": {func(f *apiServer) {
			f.refuse(http.StatusTooManyRequests, "TooManyRequests", "Cannot evict pod.", object{"causes": []object{{"reason": "DisruptionBudget", "message": "Other\x1b words"}}})
		}, "; pods: 1; a PodDisruptionBudget keeps pod team/db-0: Other\\x1b words"},
		"a busy server": {func(f *apiServer) {
			f.answer = func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/eviction") {
					w.Header().Set("Retry-After", "1")
					http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
				}
				return strings.HasSuffix(r.URL.Path, "/eviction")
			}
		}, "; pods: 1; the API server has too many requests"},
		"a busy server in a status": {func(f *apiServer) {
			f.refuse(http.StatusTooManyRequests, "TooManyRequests", "Too many requests: please try again later", object{"retryAfterSeconds": 1})
		}, "; pods: 1; the API server has too many requests"},
		"a webhook": {func(f *apiServer) {
			f.refuse(http.StatusTooManyRequests, "TooManyRequests", `admission webhook "keep.example" denied the request: too many requests`, nil)
		}, `; pods: 1; pod team/db-0: admission webhook "keep.example" denied the request: too many requests`},
		"a webhook without a reason": {func(f *apiServer) {
			f.refuse(http.StatusTooManyRequests, "", "Too many requests of ours", nil)
		}, "; pods: 1; pod team/db-0: Too many requests of ours"},
		"no right": {func(f *apiServer) {
			f.refuse(http.StatusForbidden, "Forbidden", `pods "db-0" is forbidden: no pods/eviction`, object{"name": "db-0", "kind": "pods"})
		}, `; pods: 1; pod team/db-0: pods "db-0" is forbidden: no pods/eviction`},
		"no words": {func(f *apiServer) { f.refuse(http.StatusForbidden, "", "", nil) }, "; pods: 1; pod team/db-0: Forbidden"},
		"a namespace that ends": {func(f *apiServer) {
			f.refuse(http.StatusForbidden, "Forbidden", "unable to create new content in namespace team because it is being terminated", object{"causes": []object{{"reason": "NamespaceTerminating"}}})
		}, "; pods: 1"},
	} {
		f, c := start(t)
		f.aNode("gpu-7", "True")
		f.aPod("team/db-0", "gpu-7", "StatefulSet")
		row.change(f)
		is, err := drain(t, c, now, 0)
		if want := "Ready,SchedulingDisabled" + row.words; err != nil || is.State != cluster.Draining || is.Words != want && !strings.HasPrefix(want, is.Words) || len(is.Words) < min(len(want), 190) {
			t.Errorf("%s: %+v %v", name, is, err)
		}
		if len(f.pods) != 1 || len(is.Cut) > 0 {
			t.Errorf("%s: the pod went", name)
		}
	}
}

// A pod that a webhook or a right keeps does not keep the others, and force comes to it as to any other.
func TestADenialIsOfOnePod(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusForbidden} {
		f, c := start(t)
		f.aNode("gpu-7", "True")
		for _, name := range []string{"team/a", "team/b", "team/c"} {
			f.aPod(name, "gpu-7", "ReplicaSet")
		}
		f.answer = func(w http.ResponseWriter, r *http.Request) bool {
			is := strings.HasSuffix(r.URL.Path, "/a/eviction")
			if is {
				fails(w, code, http.StatusText(code), `admission webhook "x" denied the request: no`, nil)
			}
			return is
		}
		is, err := drain(t, c, now, time.Hour)
		if err != nil || f.names() != "a" || len(is.Cut) > 0 || !strings.HasSuffix(is.Words, `; pod team/a: admission webhook "x" denied the request: no`) {
			t.Errorf("%d: %+v %v, %s", code, is, err, f.names())
		}
		f.aPod("team/d", "gpu-7", "ReplicaSet")
		if is, err := drain(t, c, now.Add(time.Hour), time.Hour); err != nil || f.names() != "" || fmt.Sprint(is.Cut) != "[team/a]" {
			t.Errorf("%d, by force: %+v %v, %s", code, is, err, f.names())
		}
	}
}

// refuse answers every eviction with a status.
func (f *apiServer) refuse(code int, reason, message string, details object) {
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/eviction") {
			fails(w, code, reason, message, details)
		}
		return strings.HasSuffix(r.URL.Path, "/eviction")
	}
}

// When the time is over, what is protected is cut off, and named. The time counts from the first order of
// the operation, whoever asks later.
func TestForceCutsOffWhatDoesNotGo(t *testing.T) {
	f, c := start(t)
	f.aNode("gpu-7", "True")
	f.budgets["team/db-0"], f.budgets["team/db-1"] = "db", "two"
	f.aPod("team/db-0", "gpu-7", "StatefulSet")
	f.aPod("team/db-1", "gpu-7", "StatefulSet")
	f.aPod("team/bare", "gpu-7", "")
	for _, after := range []time.Duration{0, 5 * time.Minute, 10*time.Minute - time.Second} {
		if is, err := drain(t, c, now.Add(after), 10*time.Minute); err != nil || len(is.Cut) > 0 || len(f.pods) != 3 {
			t.Fatalf("after %s: %+v %v", after, is, err)
		}
	}
	is, err := drain(t, c, now.Add(10*time.Minute), 10*time.Minute)
	if err != nil || fmt.Sprint(is.Cut) != "[team/db-0 team/db-1 team/bare]" || len(f.pods) > 0 || is.State != cluster.Draining || !strings.Contains(is.Words, "cut off: 3") {
		t.Errorf("%+v %v, %s", is, err, f.names())
	}

	// Another operation counts anew, and a time to come counts for nothing.
	for _, stands := range []string{
		now.Format(time.RFC3339) + " hostler: operation op-0 (k8s.node.leave@v1)", now.Add(48*time.Hour).Format(time.RFC3339) + " " + reason,
		"planted " + reason, "", now.Add(-time.Hour).Format(time.RFC3339),
	} {
		f, c := start(t)
		n := f.aNode("gpu-7", "True")
		n["spec"].(object)["unschedulable"] = true
		meta(n)["annotations"] = object{note: stands}
		f.aPod("team/bare", "gpu-7", "")
		is, err := drain(t, c, now.Add(24*time.Hour), time.Minute)
		if err != nil || len(is.Cut) > 0 || len(f.pods) != 1 || meta(n)["annotations"].(object)[note] != now.Add(24*time.Hour).Format(time.RFC3339)+" "+reason {
			t.Errorf("%q: %+v %v, %v", stands, is, err, meta(n))
		}
	}
}

// What was cut off is told although a later request of the same order fails, and only that.
func TestWhatWasCutOffIsToldWhateverComesLater(t *testing.T) {
	for name, row := range map[string]struct {
		method, path string // of the request that is answered otherwise
		answer       func(w http.ResponseWriter)
		cut, words   string
	}{
		"a broken eviction": {http.MethodPost, "/b/eviction", func(w http.ResponseWriter) { say(w, http.StatusOK, object{"kind": "Pod"}) }, "[team/a]", "cut off: 1; cannot use cluster lab"},
		"a broken deletion": {http.MethodDelete, "/b", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "x") }, "[team/a]", "cut off: 1; cannot use cluster lab"},
		"a deletion that is denied": {http.MethodDelete, "/b", func(w http.ResponseWriter) {
			fails(w, http.StatusForbidden, "Forbidden", "no", nil)
		}, "[team/a team/c]", "cut off: 2; pod team/b cannot be deleted: no"},
		"a busy deletion": {http.MethodDelete, "/b", func(w http.ResponseWriter) {
			http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
		}, "[team/a]", "cut off: 1; the API server has too many requests"},
		"a pod that has gone": {http.MethodPost, "/b/eviction", func(w http.ResponseWriter) { notFound(w, "pods", "b") }, "[team/a team/c]", "cut off: 2"},
		"another pod": {http.MethodPost, "/b/eviction", func(w http.ResponseWriter) {
			fails(w, http.StatusConflict, "Conflict", "x", object{"name": "b", "kind": "pods"})
		}, "[team/a team/c]", "cut off: 2"},
		"another pod, by its kind": {http.MethodPost, "/b/eviction", func(w http.ResponseWriter) {
			fails(w, http.StatusConflict, "Conflict", "x", object{"name": "b", "kind": "Pod"})
		}, "[team/a team/c]", "cut off: 2"},
		"a webhook's conflict":                  {http.MethodPost, "/b/eviction", func(w http.ResponseWriter) { fails(w, http.StatusConflict, "", "moves", nil) }, "[team/a team/b team/c]", "cut off: 3"},
		"a pod that has gone from its deletion": {http.MethodDelete, "/b", func(w http.ResponseWriter) { notFound(w, "pods", "b") }, "[team/a team/c]", "cut off: 2"},
		"another pod to delete": {http.MethodDelete, "/b", func(w http.ResponseWriter) {
			fails(w, http.StatusConflict, "Conflict", "x", object{"name": "b", "kind": "pods"})
		}, "[team/a team/c]", "cut off: 2"},
		"another pod to delete, by its kind": {http.MethodDelete, "/b", func(w http.ResponseWriter) {
			fails(w, http.StatusConflict, "Conflict", "x", object{"name": "b", "kind": "Pod"})
		}, "[team/a team/c]", "cut off: 2"},
	} {
		f, c := start(t)
		f.aNode("gpu-7", "True")
		for _, pod := range []string{"team/a", "team/b", "team/c"} {
			f.aPod(pod, "gpu-7", "")
		}
		if row.method == http.MethodDelete {
			f.budgets["team/b"] = "db"
		}
		if _, err := drain(t, c, now, time.Minute); err != nil {
			t.Fatal(err)
		}
		f.answer = func(w http.ResponseWriter, r *http.Request) bool {
			is := r.Method == row.method && strings.HasSuffix(r.URL.Path, row.path)
			if is {
				row.answer(w)
			}
			return is
		}
		is, err := drain(t, c, now.Add(time.Hour), time.Minute)
		if err != nil || fmt.Sprint(is.Cut) != row.cut || is.State != cluster.Draining || !strings.Contains(is.Words, row.words) {
			t.Errorf("%s: %+v %v", name, is, err)
		}
	}
}

// A pod whose kubelet does not end it is deleted without grace, when its own has long ended.
func TestAPodThatNobodyEndsIsCutOff(t *testing.T) {
	f, c := start(t)
	f.aNode("gpu-7", "Unknown")
	f.aPod("team/web-1", "gpu-7", "ReplicaSet")
	f.lingers = true
	for _, after := range []time.Duration{0, time.Minute, 80 * time.Second} {
		is, err := drain(t, c, now.Add(after), time.Second)
		if err != nil || len(is.Cut) > 0 || is.State != cluster.Draining || len(f.pods) != 1 {
			t.Fatalf("after %s: %+v %v", after, is, err)
		}
	}
	if is, err := drain(t, c, now.Add(90*time.Second), 0); err != nil || len(is.Cut) > 0 || len(f.pods) != 1 {
		t.Fatalf("without force: %+v %v", is, err)
	}
	if is, err := drain(t, c, now.Add(90*time.Second), time.Second); err != nil || fmt.Sprint(is.Cut) != "[team/web-1]" || len(f.pods) > 0 {
		t.Fatalf("%+v %v", is, err)
	}
}

// An order reaches no successor of the same name, and one order is bounded.
func TestAnOrderIsBounded(t *testing.T) {
	f, c := start(t)
	f.aNode("gpu-7", "True")
	for i := range maxEvictions + 4 {
		f.aPod(fmt.Sprintf("team/web-%02d", i), "gpu-7", "ReplicaSet")
	}
	if is, err := drain(t, c, now, 0); err != nil || len(f.pods) != 4 || len(f.orders()) != maxEvictions+1 {
		t.Errorf("%+v %v, %s", is, err, f.names())
	}

	f, c = start(t)
	f.aNode("gpu-7", "True")
	p := f.aPod("team/db-0", "gpu-7", "StatefulSet")
	f.answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/eviction") {
			meta(p)["uid"] = "another"
		}
		return false
	}
	if is, err := drain(t, c, now, 0); err != nil || len(f.pods) != 1 || is.State != cluster.Draining {
		t.Errorf("%+v %v", is, err)
	}
	f, c = start(t)
	n := f.aNode("gpu-7", "True")
	f.answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			meta(n)["uid"] = "another"
		}
		return false
	}
	if is, err := drain(t, c, now, 0); codeOf(err) != "cluster_refused" || n["spec"].(object)["unschedulable"] != nil {
		t.Errorf("%+v %v", is, err)
	}
}

// A server that lists pods of other nodes has nothing evicted.
func TestPodsOfOtherNodesAreNotEvicted(t *testing.T) {
	for name, change := range map[string]func(p object){
		"another node": func(p object) { p["spec"].(object)["nodeName"] = "gpu-8" },
		"no node":      func(p object) { delete(p["spec"].(object), "nodeName") },
		"no uid":       func(p object) { delete(meta(p), "uid") },
		"no namespace": func(p object) { meta(p)["namespace"] = "" },
	} {
		f, c := start(t)
		f.aNode("gpu-7", "True")
		p := f.aPod("team/web-1", "gpu-7", "ReplicaSet")
		change(p)
		f.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/pods") {
				return false
			}
			say(w, http.StatusOK, object{"kind": "PodList", "apiVersion": "v1", "metadata": object{}, "items": f.pods})
			return true
		}
		if is, err := drain(t, c, now, 0); codeOf(err) != "cluster_answer_invalid" || is.State != "" || len(f.orders()) > 1 {
			t.Errorf("%s: %+v %v, %v", name, is, err, f.asked)
		}
	}
}

func TestADrainIsRefused(t *testing.T) {
	f, c := start(t)
	if _, err := drain(t, c, now, 0); codeOf(err) != "cluster_node_unknown" {
		t.Errorf("an absent node: %v", err)
	}
	f.aNode("gpu-7", "Hover")
	if _, err := drain(t, c, now, 0); codeOf(err) != "cluster_node_unknown" {
		t.Errorf("an unknown node: %v", err)
	}
	if _, err := c.Drain(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}, cluster.DrainOrder{Reason: " ", At: now}); codeOf(err) != "reason_missing" {
		t.Error(err)
	}
	n := f.aNode("gpu-7", "True")
	f.answer = func(w http.ResponseWriter, r *http.Request) bool { // accepted, and not done
		if r.Method == http.MethodPatch {
			say(w, http.StatusOK, n)
		}
		return r.Method == http.MethodPatch
	}
	if is, err := drain(t, c, now, 0); codeOf(err) != "cluster_node_unknown" {
		t.Errorf("a node that stays open: %+v %v", is, err)
	}
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/eviction") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"Pod","status":{}}`)
		}
		return strings.HasSuffix(r.URL.Path, "/eviction")
	}
	f.aPod("team/web-1", "gpu-7", "ReplicaSet")
	if is, err := drain(t, c, now, 0); codeOf(err) != "cluster_answer_invalid" {
		t.Errorf("an eviction that says nothing: %+v %v", is, err)
	}
}
