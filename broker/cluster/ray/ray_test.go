package ray

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
)

const (
	token = "planted-token"
	key   = "planted-key-of-the-cluster-32-byte"
)

// dashboard answers as the dashboard of Ray does with RAY_AUTH_MODE=token, by Ray's source
// (http_token_authentication.py, state_api_utils.py, optional_utils.py).
type dashboard struct {
	answer func(w http.ResponseWriter, r *http.Request)
	open   bool // RAY_AUTH_MODE=disabled
	asked  []string
}

func (d *dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	auth := r.Header.Get("Authorization")
	d.asked = append(d.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+auth))
	switch {
	case !d.open && auth == "":
		http.Error(w, "Unauthorized: Missing authentication token", http.StatusUnauthorized)
	case !d.open && auth != "Bearer "+token:
		http.Error(w, "Forbidden: Invalid authentication token", http.StatusForbidden)
	default:
		d.answer(w, r)
	}
}

// says makes an answer with a status and JSON.
func says(status int, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// id is an id of Ray.
func id(digit string) string { return strings.Repeat(digit, 56) }

// node is a record of a node.
func node(id, name, state string) string {
	return fmt.Sprintf(`{"node_id":%q,"node_ip":"10.0.0.7","is_head_node":false,"state":%q,"state_message":null,"node_name":%q,`+
		`"resources_total":{"GPU":8.0,"node:10.0.0.7":1.0},"labels":{"ray.io/node-id":%q,"hostler.dev/node":"n-7"}}`, id, state, name, id)
}

// nodes is an answer with records. Ray says how many nodes it has, however many fit the filters.
func nodes(records ...string) string {
	return fmt.Sprintf(`{"result":true,"msg":"","data":{"result":{"total":9,"num_after_truncation":%[1]d,"num_filtered":%[1]d,`+
		`"result":[%[2]s],"partial_failure_warning":"","warnings":null}}}`, len(records), strings.Join(records, ","))
}

func start(t *testing.T, answer func(http.ResponseWriter, *http.Request)) (*dashboard, *Cluster) {
	t.Helper()
	d := &dashboard{answer: answer}
	s := httptest.NewTLSServer(d)
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	c := broker.Cluster{Name: "lab", Backend: "ray", URL: s.URL, CACert: string(ca), Controller: "head:6379", JoinAuth: "token"}
	return d, New(c, cluster.Access{Token: token, JoinSecret: []byte(key)}).(*Cluster)
}

func TestWhatRaySaysIsJudged(t *testing.T) {
	head := strings.Replace(node(id("a"), "n1", alive), `"is_head_node":false`, `"is_head_node":true`, 1)
	for answer, want := range map[string]cluster.State{
		nodes(node(id("a"), "n1", alive)): cluster.Member,
		nodes():                           cluster.Absent,
		nodes(node(id("a"), "n1", dead)):  cluster.Absent,
		nodes(node(id("a"), "n1", dead), node(id("b"), "n1", alive)):        cluster.Member, // a server that does not filter by state
		nodes(node(id("a"), "n1", alive), node(id("b"), "n1", alive)):       cluster.Unknown,
		nodes(node(id("a"), "n2", alive)):                                   cluster.Unknown,
		nodes(node(id("a"), "n1", alive), node(id("b"), "n2", alive)):       cluster.Unknown,
		nodes(node(id("a"), "N1", alive)):                                   cluster.Unknown, // Ray's filter knows no case
		nodes(node(id("a"), "n1", "HOVERING")):                              cluster.Unknown,
		nodes(node(id("a"), "n1", "")):                                      cluster.Unknown,
		nodes(node(id("a"), "n1", "alive")):                                 cluster.Unknown,
		nodes(head):                                                         cluster.Unknown,
		strings.Replace(nodes(head), `"is_head_node":true,`, "", 1):         cluster.Unknown,
		nodes(node("a", "n1", alive)):                                       cluster.Unknown,
		nodes(node(id("a")+`/../x`, "n1", alive)):                           cluster.Unknown,
		strings.Replace(nodes(), `"num_filtered":0`, `"num_filtered":1`, 1): cluster.Unknown, // a node is left out
		strings.Replace(nodes(), `"num_filtered":0,`, "", 1):                cluster.Unknown,
		strings.Replace(nodes(), `warning":""`, `warning":"half"`, 1):       cluster.Unknown,
		strings.Replace(nodes(), `"warnings":null`, `"warnings":["x"]`, 1):  cluster.Unknown,
	} {
		_, c := start(t, says(http.StatusOK, answer))
		is, err := c.Membership(t.Context(), cluster.Node{Name: "n1", ID: "n-7"})
		if err != nil || is.State != want || is.Words == "" || (is.ID != "") != (want == cluster.Member) {
			t.Errorf("%s: %+v %v, want %s", answer, is, err, want)
		}
	}
	// The id is of the record that is alive.
	d, c := start(t, says(http.StatusOK, nodes(node(id("a"), "n1", dead), node(id("b"), "n1", alive))))
	is, err := c.Membership(t.Context(), cluster.Node{Name: "n1", ID: "n-7"})
	if err != nil || is.State != cluster.Member || is.Words != "ALIVE" || is.ID != id("b") {
		t.Errorf("%+v %v", is, err)
	}
	const asked = "GET /api/v0/nodes?filter_keys=node_name&filter_keys=state&filter_predicates=%3D&filter_predicates=%3D&filter_values=n1&filter_values=ALIVE&limit=16 Bearer planted-token"
	if len(d.asked) != 1 || d.asked[0] != asked {
		t.Errorf("asked %q", d.asked)
	}
}

func TestAStrangeServerIsNoCluster(t *testing.T) {
	for name, row := range map[string]struct {
		code   string
		answer func(http.ResponseWriter, *http.Request)
	}{
		"a request that cannot be":  {"cluster_refused", says(http.StatusBadRequest, `{"result":false,"msg":"The given filter\u001b[2J column","data":{"result":null}}`)},
		"a head that is busy":       {"cluster_refused", says(http.StatusInternalServerError, `{"result":false,"msg":"Max number of in-progress requests=13 reached.","data":{"result":null}}`)},
		"a failure with a list":     {"cluster_refused", says(http.StatusInternalServerError, nodes())},
		"another answer of Ray":     {"cluster_answer_invalid", says(http.StatusOK, `{"result":true,"msg":"Node summary fetched.","data":{"summary":[]}}`)},
		"a list that is none":       {"cluster_answer_invalid", says(http.StatusOK, `{"result":true,"msg":"","data":{"result":{"num_filtered":0,"result":null}}}`)},
		"an empty answer":           {"cluster_answer_invalid", says(http.StatusOK, `{}`)},
		"a huge answer":             {"cluster_answer_invalid", says(http.StatusOK, strings.Replace(nodes(), `"msg":""`, `"msg":"`+strings.Repeat("y", maxAnswer)+`"`, 1))},
		"half an answer":            {"cluster_answer_invalid", says(http.StatusOK, nodes()[:40])},
		"two lists":                 {"cluster_answer_invalid", says(http.StatusOK, strings.Replace(nodes(), `"data":`, `"data":{},"data":`, 1))},
		"two states":                {"cluster_answer_invalid", says(http.StatusOK, strings.Replace(nodes(node(id("a"), "n1", dead)), `"state":`, `"state":"ALIVE","state":`, 1))},
		"a page":                    {"cluster_answer_invalid", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>planted-page") }},
		"a redirect":                {"cluster_answer_invalid", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }},
		"a path that is not there":  {"cluster_answer_invalid", http.NotFound},
		"a line that ends":          {"cluster_unreachable", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		"a proxy that asks as well": {"cluster_token_refused", says(http.StatusUnauthorized, `{}`)},
	} {
		d, c := start(t, row.answer)
		is, err := c.Membership(t.Context(), cluster.Node{Name: "n1", ID: "n-7"})
		if err == nil || broker.AsError(err).Code != row.code || is.State != "" {
			t.Errorf("%s: %+v %v, want %s", name, is, err, row.code)
		}
		if err != nil && (strings.Contains(err.Error(), "planted") || strings.ContainsRune(err.Error(), 0x1b)) {
			t.Errorf("%s: the error repeats what it should not: %v", name, err)
		}
		if len(d.asked) != 1 {
			t.Errorf("%s: asked %q", name, d.asked)
		}
	}
	_, c := start(t, says(http.StatusOK, nodes()))
	c.rest.token = "another"
	if _, err := c.Membership(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}); broker.AsError(err).Code != "cluster_token_refused" || strings.Contains(err.Error(), "another") {
		t.Error(err)
	}
}

// The token of the nodes is for a cluster that asks for it.
func TestANodeJoinsAClusterThatAsksForItsToken(t *testing.T) {
	d, c := start(t, says(http.StatusOK, nodes()))
	join, err := c.Join(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}, time.Time{})
	if err != nil || join.Node != "n1" || join.Controller != "head:6379" || join.Auth != "token" || string(join.Key) != key {
		t.Errorf("%+v %v", join, err)
	}
	if len(d.asked) != 1 || d.asked[0] != "GET /api/v0/nodes?limit=1" {
		t.Errorf("asked %q", d.asked)
	}
	clear(join.Key)
	if again, err := c.Join(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}, time.Time{}); err != nil || string(again.Key) != key {
		t.Errorf("the key is no copy: %+v %v", again, err)
	}
	for name, row := range map[string]struct {
		code string
		make func(d *dashboard, c *Cluster)
	}{
		"no token asked for": {"cluster_unprotected", func(d *dashboard, _ *Cluster) { d.open = true }},
		"an error in place of a refusal": {"cluster_unprotected", func(d *dashboard, _ *Cluster) {
			d.open, d.answer = true, says(http.StatusInternalServerError, `{}`)
		}},
		"no cluster": {"cluster_unreachable", func(d *dashboard, _ *Cluster) {
			d.open, d.answer = true, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		}},
		"no join secret": {"cluster_join_unset", func(_ *dashboard, c *Cluster) { c.token = nil }},
	} {
		d, c := start(t, says(http.StatusOK, nodes()))
		row.make(d, c)
		if join, err := c.Join(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}, time.Time{}); broker.AsError(err).Code != row.code || join.Key != nil || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %+v %v", name, join, err)
		}
	}
}

func TestNamesThatNoNodeJoinsWithAreRefused(t *testing.T) {
	d, c := start(t, says(http.StatusOK, nodes()))
	for _, name := range []string{"", "N1", "n1&limit=0", "n1/..", "-n1", "n 1", strings.Repeat("n", 64)} {
		_, look := c.Membership(t.Context(), cluster.Node{Name: name})
		_, join := c.Join(t.Context(), cluster.Node{Name: name}, time.Time{})
		_, drain := c.Drain(t.Context(), cluster.Node{Name: name}, cluster.DrainOrder{Reason: "r"})
		for _, err := range []error{look, join, drain, c.Joined(t.Context(), cluster.Node{Name: name}), c.Remove(t.Context(), cluster.Node{Name: name})} {
			if err == nil || broker.AsError(err).Code != "cluster_node_invalid" {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	if len(d.asked) > 0 {
		t.Errorf("asked %q", d.asked)
	}
}

// The dashboard takes no order: none is sent, and none is said to have happened.
func TestNoOrderIsSent(t *testing.T) {
	answer := nodes(node(id("a"), "n1", alive))
	d, c := start(t, nil)
	d.answer = func(w http.ResponseWriter, r *http.Request) { says(http.StatusOK, answer)(w, r) }
	if is, err := c.Drain(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}, cluster.DrainOrder{Reason: "r"}); err != nil || is.State != cluster.Member {
		t.Errorf("%+v %v", is, err)
	}
	if _, err := c.Drain(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}, cluster.DrainOrder{Reason: "r", ForceAfter: time.Hour}); err == nil || broker.AsError(err).Code != "cluster_force_unsupported" {
		t.Error(err)
	}
	if err := c.Remove(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}); broker.AsError(err).Code != "cluster_refused" {
		t.Error(err)
	}
	answer = nodes()
	if err := c.Remove(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}); err != nil {
		t.Error(err)
	}
	for _, asked := range d.asked {
		if !strings.HasPrefix(asked, "GET ") {
			t.Errorf("asked %q", asked)
		}
	}
}

// The node orders its drain by the id that the broker hands on, so the id of another machine stays here.
func TestANodeThatNothingProvesIsForeign(t *testing.T) {
	ours := nodes(node(id("a"), "n1", alive))
	for name, answer := range map[string]string{
		"no label":        strings.Replace(ours, `,"hostler.dev/node":"n-7"`, "", 1),
		"another node":    strings.Replace(ours, `"n-7"`, `"n-8"`, 1),
		"an empty label":  strings.Replace(ours, `"n-7"`, `""`, 1),
		"a strange label": strings.Replace(ours, `"n-7"`, `["n-7"]`, 1),
		"no labels":       strings.Replace(ours, `"labels":{"ray.io/node-id":"`+id("a")+`","hostler.dev/node":"n-7"}`, `"labels":null`, 1),
	} {
		if answer == ours {
			t.Fatalf("%s: the answer is the same", name)
		}
		_, c := start(t, says(http.StatusOK, answer))
		is, err := c.Membership(t.Context(), cluster.Node{Name: "n1", ID: "n-7"})
		if err != nil || is.State != cluster.Foreign || is.ID != "" || !strings.Contains(is.Words, "label hostler.dev/node") || is.Prove == "" {
			t.Errorf("%s: %+v %v", name, is, err)
		}
		if err := c.Remove(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}); broker.AsError(err).Code != "cluster_refused" {
			t.Errorf("%s: removed, %v", name, err)
		}
	}
	_, c := start(t, says(http.StatusOK, strings.Replace(ours, `"n-7"`, `""`, 1)))
	if is, err := c.Membership(t.Context(), cluster.Node{Name: "n1"}); err != nil || is.State != cluster.Foreign {
		t.Errorf("a node without an id: %+v %v", is, err)
	}
}
