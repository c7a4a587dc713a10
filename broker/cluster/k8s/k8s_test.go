package k8s

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
)

func codeOf(err error) string {
	if err == nil {
		return ""
	}
	return broker.AsError(err).Code
}

func TestWhatKubernetesSaysIsJudged(t *testing.T) {
	tainted := func(key, effect string) func(n object) {
		return func(n object) { n["spec"].(object)["taints"] = []object{{"key": key, "effect": effect}} }
	}
	for name, row := range map[string]struct {
		ready  string
		change func(n object)
		want   cluster.State
		words  string
	}{
		"ready":        {"True", nil, cluster.Member, "Ready"},
		"not ready":    {"False", nil, cluster.Joining, "NotReady"},
		"silent":       {"Unknown", nil, cluster.Down, "Unknown"},
		"another word": {"true", nil, cluster.Unknown, ""},
		"no word":      {"", nil, cluster.Unknown, ""},
		"no condition": {"True", func(n object) { n["status"] = object{} }, cluster.Joining, "NotReady"},
		"two conditions": {"True", func(n object) {
			n["status"] = object{"conditions": []object{{"type": "Ready", "status": "True"}, {"type": "Ready", "status": "False"}}}
		}, cluster.Unknown, ""},
		"cordoned":          {"True", func(n object) { n["spec"].(object)["unschedulable"] = true }, cluster.Drained, "Ready,SchedulingDisabled"},
		"cordoned, silent":  {"Unknown", func(n object) { n["spec"].(object)["unschedulable"] = true }, cluster.Drained, "Unknown,SchedulingDisabled"},
		"a network to come": {"True", tainted("node.kubernetes.io/network-unavailable", "NoSchedule"), cluster.Joining, "Ready,network-unavailable"},
		"under pressure":    {"True", tainted("node.kubernetes.io/disk-pressure", "NoSchedule"), cluster.Joining, "Ready,disk-pressure"},
		"out of service":    {"True", tainted("node.kubernetes.io/out-of-service", "NoExecute"), cluster.Down, "Ready,out-of-service"},
		"a later taint":     {"True", tainted("node.kubernetes.io/hover", "NoSchedule"), cluster.Unknown, ""},
		"a later effect":    {"True", tainted("example.com/gpu", "Hover"), cluster.Unknown, ""},
		"an own taint":      {"True", tainted("nvidia.com/gpu", "NoSchedule"), cluster.Member, "Ready"},
		"being deleted":     {"True", func(n object) { meta(n)["deletionTimestamp"] = now.Format(time.RFC3339) }, cluster.Unknown, ""},
		"another node":      {"True", func(n object) { meta(n)["name"] = "gpu-8" }, cluster.Unknown, ""},
		"no uid":            {"True", func(n object) { delete(meta(n), "uid") }, cluster.Unknown, ""},
		"a pod":             {"True", func(n object) { n["kind"] = "Pod" }, cluster.Unknown, ""},
		"another version":   {"True", func(n object) { n["apiVersion"] = "v2" }, cluster.Unknown, ""},
	} {
		f, c := start(t)
		n := f.aNode("gpu-7", row.ready)
		if row.change != nil {
			row.change(n)
		}
		is, err := c.Membership(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"})
		if err != nil || is.State != row.want || row.words != "" && is.Words != row.words || is.Words == "" {
			t.Errorf("%s: %+v %v, want %s", name, is, err, row.want)
		}
	}
}

// Only an answer about this very node means that it is not there.
func TestAbsentIsAnAnswerAboutTheNode(t *testing.T) {
	f, c := start(t)
	if is, err := c.Membership(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}); err != nil || is.State != cluster.Absent {
		t.Error(is, err)
	}
	for name, answer := range map[string]func(w http.ResponseWriter){
		"another node":     func(w http.ResponseWriter) { notFound(w, "nodes", "gpu-8") },
		"another resource": func(w http.ResponseWriter) { notFound(w, "pods", "gpu-7") },
		"another reason": func(w http.ResponseWriter) {
			fails(w, http.StatusNotFound, "Gone", "gone", object{"name": "gpu-7", "kind": "nodes"})
		},
		"no details": func(w http.ResponseWriter) {
			fails(w, http.StatusNotFound, "NotFound", "the server could not find the requested resource", nil)
		},
		"a page": func(w http.ResponseWriter) { http.NotFound(w, nil) },
	} {
		f.answer = func(w http.ResponseWriter, _ *http.Request) bool { answer(w); return true }
		is, err := c.Membership(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"})
		if err == nil && is.State != cluster.Unknown || err != nil && codeOf(err) != "cluster_answer_invalid" {
			t.Errorf("%s: %+v %v", name, is, err)
		}
		if name == "a page" && err == nil {
			t.Error("a page is an answer")
		}
		if err := c.Remove(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}); err == nil {
			t.Errorf("%s: the node counts as removed", name)
		}
	}
}

func TestAStrangeServerIsNoCluster(t *testing.T) {
	asked := 0
	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	raw := func(code int, kind, body string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
	const plain = "application/json"
	for name, row := range map[string]struct {
		code   string
		answer func(w http.ResponseWriter, r *http.Request) bool
	}{
		"a token that ended": {"cluster_token_refused", func(w http.ResponseWriter, _ *http.Request) bool {
			fails(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized", nil)
			return true
		}},
		"no right": {"cluster_refused", func(w http.ResponseWriter, _ *http.Request) bool {
			fails(w, http.StatusForbidden, "Forbidden", `nodes "gpu-7" is forbidden: User "x" cannot get resource "nodes"`+"\x1b[2J", object{"name": "gpu-7", "kind": "nodes"})
			return true
		}},
		"too much asked": {"cluster_refused", raw(http.StatusTooManyRequests, "text/plain; charset=utf-8", "Too many requests, please try again later.\n")},
		"a server that ends": {"cluster_refused", func(w http.ResponseWriter, _ *http.Request) bool {
			fails(w, http.StatusServiceUnavailable, "ServiceUnavailable", "apiserver is shutting down", nil)
			return true
		}},
		"a proxy":        {"cluster_answer_invalid", raw(http.StatusBadGateway, "text/html", "<html>planted-page")},
		"a huge answer":  {"cluster_answer_invalid", raw(http.StatusOK, plain, `{"x":"`+strings.Repeat("y", maxAnswer)+`"}`)},
		"half an answer": {"cluster_answer_invalid", raw(http.StatusOK, plain, `{"kind":"Node","metadata":{"name":`)},
		"two names":      {"cluster_answer_invalid", raw(http.StatusOK, plain, `{"kind":"Node","metadata":{"name":"gpu-8","name":"gpu-7"}}`)},
		"many causes":    {"cluster_answer_invalid", raw(http.StatusInternalServerError, plain, `{"kind":"Status","status":"Failure","details":{"causes":[{}`+strings.Repeat(`,{}`, maxCauses)+`]}}`)},
		"an odd failure": {"cluster_answer_invalid", raw(http.StatusInternalServerError, plain, `{"kind":"Node"}`)},
		"a redirect": {"cluster_answer_invalid", func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		}},
		"a line that ends": {"cluster_unreachable", func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }},
	} {
		f, c := start(t)
		f.answer = row.answer
		is, err := c.Membership(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"})
		if codeOf(err) != row.code || is.State != "" {
			t.Errorf("%s: %+v %v, want %s", name, is, err, row.code)
		}
		if err != nil && (strings.Contains(err.Error(), "planted") || strings.ContainsRune(err.Error(), 0x1b)) {
			t.Errorf("%s: the error repeats what it should not: %v", name, err)
		}
	}
	if asked > 0 {
		t.Error("the token went to another host")
	}
}

func TestNamesThatAreNoneReachNoServer(t *testing.T) {
	f, c := start(t)
	for _, name := range []string{"", "-n1", "n1-", "N1", "n1/status", "../pods", "n1?x", "a.b", strings.Repeat("n", 64)} {
		_, look := c.Membership(t.Context(), cluster.Node{Name: name})
		_, join := c.Join(t.Context(), cluster.Node{Name: name}, now)
		_, drain := c.Drain(t.Context(), cluster.Node{Name: name}, cluster.DrainOrder{Reason: "r", At: now})
		for _, err := range []error{look, join, drain, c.Joined(t.Context(), cluster.Node{Name: name}), c.Remove(t.Context(), cluster.Node{Name: name})} {
			if codeOf(err) != "cluster_node_invalid" {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	if len(f.asked) > 0 {
		t.Errorf("asked %v", f.asked)
	}
}

func TestATokenIsMadeForOneNode(t *testing.T) {
	f, c := start(t)
	join, err := c.Join(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}, now.Add(15*time.Minute))
	if err != nil || join.Node != "gpu-7" || join.Controller != "api.example:6443" || join.Auth != "bootstrap-token" || join.CA == "" {
		t.Fatal(join, err)
	}
	id, key, _ := strings.Cut(string(join.Key), ".")
	made := f.secrets["bootstrap-token-"+id]
	if len(id) != 6 || len(key) != 16 || made == nil || made["type"] != "bootstrap.kubernetes.io/token" || meta(made)["namespace"] != "kube-system" {
		t.Fatalf("%s: %v", join.Key, f.secrets)
	}
	text := fmt.Sprint(made["data"])
	for key, want := range map[string]string{ // base64, as the API has it
		"token-id": "", "token-secret": "", "usage-bootstrap-authentication": "dHJ1ZQ==",
		"expiration":        "MjAyNi0xMS0wMVQxMjoxNTowMFo=",
		"auth-extra-groups": "c3lzdGVtOmJvb3RzdHJhcHBlcnM6a3ViZWFkbTpkZWZhdWx0LW5vZGUtdG9rZW4=",
	} {
		if !strings.Contains(text, key+":"+want) {
			t.Errorf("%s is not %s: %s", key, want, text)
		}
	}
	if strings.Contains(text, "usage-bootstrap-signing") {
		t.Errorf("the token has another use: %s", text)
	}

	// A second join, after a broker that ended or a task that was retried, replaces the token.
	again, err := c.Join(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}, now)
	if err != nil || string(again.Key) == string(join.Key) || !strings.HasPrefix(string(again.Key), id+".") || len(f.secrets) != 1 {
		t.Error(again, err, f.secrets)
	}
	if other, err := c.Join(t.Context(), cluster.Node{Name: "gpu-8", ID: "n-7"}, now); err != nil || strings.HasPrefix(string(other.Key), id+".") || len(f.secrets) != 2 {
		t.Error(other, err)
	}
	for range 2 {
		if err := c.Joined(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}); err != nil || len(f.secrets) != 1 {
			t.Error(err, f.secrets)
		}
	}
}

// A cluster that makes another token than it was asked for keeps none.
func TestAnotherTokenIsRefused(t *testing.T) {
	for name, change := range map[string]func(s object){
		"another group":   func(s object) { s["data"].(object)["auth-extra-groups"] = "c3lzdGVtOm1hc3RlcnM=" },
		"no end":          func(s object) { delete(s["data"].(object), "expiration") },
		"another secret":  func(s object) { s["data"].(object)["token-secret"] = "cGxhbnRlZHBsYW50ZWQx" },
		"one thing more":  func(s object) { s["data"].(object)["planted"] = "" },
		"another type":    func(s object) { s["type"] = "Opaque" },
		"another name":    func(s object) { meta(s)["name"] = "bootstrap-token-aaaaaa" },
		"another kind":    func(s object) { s["kind"] = "ConfigMap" },
		"another project": func(s object) { meta(s)["namespace"] = "kube-public" },
	} {
		f, c := start(t)
		f.stored = change
		join, err := c.Join(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}, now)
		if codeOf(err) != "cluster_answer_invalid" || join.Key != nil || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v %v", name, join, err)
		}
		if len(f.secrets) > 0 {
			t.Errorf("%s: it stays", name)
		}
	}
	f, c := start(t)
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			fails(w, http.StatusConflict, "AlreadyExists", "planted", object{"name": "bootstrap-token-" + tokenID("gpu-7"), "kind": "secrets"})
		}
		return r.Method == http.MethodPost
	}
	if _, err := c.Join(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}, now); err == nil || len(f.asked) > 4 {
		t.Error(err, f.asked)
	}
	c.controller = ""
	if _, err := c.Join(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}, now); codeOf(err) != "cluster_join_unset" {
		t.Error(err)
	}
}

func TestANodeIsRemovedWhenItHasNoWork(t *testing.T) {
	f, c := start(t)
	n := f.aNode("gpu-7", "True")
	if err := c.Remove(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}); codeOf(err) != "cluster_node_unknown" || len(f.orders()) > 0 {
		t.Errorf("a member: %v, %v", err, f.asked)
	}
	n["spec"].(object)["unschedulable"] = true
	f.aPod("team/web-1", "gpu-7", "ReplicaSet")
	if err := c.Remove(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}); codeOf(err) != "cluster_node_unknown" || len(f.orders()) > 0 {
		t.Errorf("with a pod: %v, %v", err, f.asked)
	}
	f.pods = nil
	f.answer = func(_ http.ResponseWriter, r *http.Request) bool { // somebody uncordons it meanwhile
		if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/nodes/") {
			meta(n)["resourceVersion"] = "later"
		}
		return false
	}
	if err := c.Remove(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}); codeOf(err) != "cluster_refused" || f.nodes["gpu-7"] == nil {
		t.Errorf("a node that changed: %v", err)
	}
	f.answer = nil
	if _, err := c.Join(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}, now); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}); err != nil || f.nodes["gpu-7"] != nil || len(f.secrets) > 0 {
		t.Errorf("%v, %v", err, f.nodes)
	}
	if err := c.Remove(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}); err != nil {
		t.Errorf("once more: %v", err)
	}
}

func TestTheControlPlaneIsLeftAlone(t *testing.T) {
	for _, role := range []string{"control-plane", "master", "etcd"} {
		f, c := start(t)
		meta(f.aNode("gpu-7", "True"))["labels"] = object{"node-role.kubernetes.io/" + role: ""}
		_, err := c.Drain(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}, cluster.DrainOrder{Reason: "r", At: now})
		if removed := c.Remove(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}); codeOf(err) != "cluster_node_refused" || codeOf(removed) != "cluster_node_refused" || len(f.orders()) > 0 {
			t.Errorf("%s: %v, %v, %v", role, err, removed, f.asked)
		}
	}
}

// Many pods come in pages, and a list that ends in the middle is begun again.
func TestPodsComeInPages(t *testing.T) {
	f, c := start(t)
	f.aNode("gpu-7", "True")["spec"].(object)["unschedulable"] = true
	for i := range 2*podsInPage + 1 {
		f.aPod(fmt.Sprintf("team/web-%d", i), "gpu-7", "ReplicaSet")
		f.aPod(fmt.Sprintf("team/elsewhere-%d", i), "gpu-8", "ReplicaSet")
	}
	f.expired = 1
	is, err := c.Membership(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"})
	pages := len(slices.DeleteFunc(slices.Clone(f.asked), func(a string) bool { return !strings.Contains(a, "/pods?") }))
	if err != nil || is.State != cluster.Draining || is.Words != "Ready,SchedulingDisabled; pods: 51" || pages != 5 {
		t.Errorf("%+v %v, pages %d", is, err, pages)
	}
	f.expired = 2
	if is, err := c.Membership(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}); codeOf(err) != "cluster_answer_invalid" || is.State != "" {
		t.Errorf("%+v %v", is, err)
	}
	f.asked = nil
	f.answer = func(w http.ResponseWriter, r *http.Request) bool { // a list without an end
		if strings.HasSuffix(r.URL.Path, "/pods") {
			say(w, http.StatusOK, object{"kind": "PodList", "apiVersion": "v1", "metadata": object{"continue": "more"}, "items": []object{}})
			return true
		}
		return false
	}
	if is, err := c.Membership(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"}); codeOf(err) != "cluster_answer_invalid" || is.State != "" || len(f.asked) > maxPages+1 {
		t.Errorf("%+v %v, asked %d", is, err, len(f.asked))
	}
}

// A machine that has joined by other means under the same name is neither cordoned, nor emptied, nor removed.
func TestANodeThatNothingProvesGetsNoOrder(t *testing.T) {
	me := cluster.Node{Name: "gpu-7", ID: "n-7"}
	for name, labels := range map[string]object{
		"no label": {"kubernetes.io/hostname": "gpu-7"}, "another node": {"hostler.dev/node": "n-8"}, "an empty label": {"hostler.dev/node": ""},
		"no labels": nil, "a label like it": {"hostler.dev/nodes": "n-7", "hostler.dev/Node": "n-7"},
	} {
		for _, cordoned := range []bool{false, true} {
			f, c := start(t)
			n := f.aNode("gpu-7", "True")
			meta(n)["labels"], n["spec"].(object)["unschedulable"] = labels, cordoned
			f.aPod("team/web", "gpu-7", "ReplicaSet")
			is, err := c.Membership(t.Context(), me)
			if err != nil || is.State != cluster.Foreign || !strings.Contains(is.Words, "label hostler.dev/node") ||
				is.Prove != "run kubectl label node gpu-7 hostler.dev/node=n-7" {
				t.Errorf("%s: %+v %v", name, is, err)
			}
			_, drain := c.Drain(t.Context(), me, cluster.DrainOrder{Reason: reason, At: now, ForceAfter: time.Second})
			remove := c.Remove(t.Context(), me)
			if codeOf(drain) != "cluster_node_unproven" || codeOf(remove) != "cluster_node_unproven" || len(f.orders()) > 0 || len(f.pods) != 1 || f.nodes["gpu-7"] == nil {
				t.Errorf("%s: %v, %v, ordered %v", name, drain, remove, f.orders())
			}
		}
	}
	f, c := start(t)
	meta(f.aNode("gpu-7", "True"))["labels"] = object{"hostler.dev/node": ""}
	if _, err := c.Drain(t.Context(), cluster.Node{Name: "gpu-7"}, cluster.DrainOrder{Reason: reason, At: now}); codeOf(err) != "cluster_node_unproven" {
		t.Errorf("a node without an id: %v", err)
	}
}

// What the API server says of labels, taints, kubelet and GPUs reaches whoever asks for them.
func TestTheTraitsOfANodeAreRead(t *testing.T) {
	for count, want := range map[string]int64{"8": 8, "0": 0, "": 0, "1k": -1, "-1": -1, "8.5": -1} {
		f, c := start(t)
		n := f.aNode("gpu-7", "True")
		n["spec"].(object)["taints"] = []object{{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, {"key": "pool", "effect": "NoExecute"}}
		status := n["status"].(object)
		status["nodeInfo"] = object{"kubeletVersion": "v1.35.4"}
		status["allocatable"] = object{"cpu": "128", "memory": "1056461064Ki", "nvidia.com/gpu": count}
		if count == "" {
			status["allocatable"] = object{"cpu": "128"}
		}
		is, err := c.Membership(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"})
		slices.Sort(is.Traits.Labels)
		if err != nil || is.State != cluster.Member || is.Traits.GPUs != want || is.Traits.Version != "v1.35.4" ||
			!slices.Equal(is.Traits.Labels, []string{"hostler.dev/node=n-7", "kubernetes.io/hostname=gpu-7"}) ||
			!slices.Equal(is.Traits.Taints, []string{"nvidia.com/gpu=present:NoSchedule", "pool:NoExecute"}) {
			t.Errorf("%q: %+v %v", count, is, err)
		}
	}
}
