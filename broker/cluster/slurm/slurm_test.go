package slurm

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

// fake is a slurmrestd that answers as a test says.
type fake struct {
	answer func(w http.ResponseWriter, r *http.Request)
	asked  []string
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.asked = append(f.asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-SLURM-USER-TOKEN")+" "+string(body))
	f.answer(w, r)
}

// says makes an answer with a status and JSON.
func says(status int, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// node is an answer about a node with states.
func node(name string, states ...string) string {
	return fmt.Sprintf(`{"nodes":[{"name":%q,"state":["%s"],"reason":"was hot","new":{"x":1}}],"errors":[],"warnings":[]}`, name, strings.Join(states, `","`))
}

func start(t *testing.T, answer func(http.ResponseWriter, *http.Request)) (*fake, *Cluster) {
	t.Helper()
	f := &fake{answer: answer}
	s := httptest.NewTLSServer(f)
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	c := broker.Cluster{Name: "lab", Backend: "slurm", URL: s.URL, CACert: string(ca), Controller: "ctl:6817", JoinAuth: "munge"}
	return f, New(c, cluster.Access{Token: "planted-token", JoinSecret: []byte("planted-key")}).(*Cluster)
}

func TestWhatSlurmSaysIsJudged(t *testing.T) {
	for answer, want := range map[string]cluster.State{
		node("n1", "IDLE", "DYNAMIC_NORM"):           cluster.Member,
		node("n1", "MIXED"):                          cluster.Member,
		node("n1", "ALLOCATED", "COMPLETING"):        cluster.Member,
		node("n1", "IDLE", "DRAIN"):                  cluster.Drained,
		node("n1", "DOWN", "DRAIN"):                  cluster.Drained,
		node("n1", "IDLE", "COMPLETING", "DRAIN"):    cluster.Draining,
		node("n1", "MIXED", "DRAIN"):                 cluster.Draining,
		node("n1", "DOWN"):                           cluster.Down,
		node("n1", "IDLE", "NOT_RESPONDING"):         cluster.Down,
		node("n1", "IDLE", "INVALID_REG"):            cluster.Down,
		node("n1", "IDLE", "POWERED_DOWN", "CLOUD"):  cluster.Down,
		node("n1", "NOT_RESPONDING", "IDLE", "FAIL"): cluster.Down,
		node("n1", "UNKNOWN", "DYNAMIC_NORM"):        cluster.Joining,
		node("n1", "IDLE", "POWERING_UP"):            cluster.Joining,
		node("n1", "IDLE", "REBOOT_ISSUED"):          cluster.Joining,
		`{"nodes":[],"errors":[{"error_number":2018,"error":"Invalid node name specified"}]}`:               cluster.Absent,
		`{"errors":[{"error_number":0,"error":"No error","description":"Failure to query node n1"}]}`:       cluster.Absent,
		`{"errors":[{"error_number":0,"error":"No error","description":"Failure to query node n2"}]}`:       cluster.Unknown,
		`{"errors":[{"error_number":2018},{"error_number":1800,"error":"Unable to contact"}],"nodes":null}`: cluster.Unknown,
		`{"nodes":[],"errors":[]}`:       cluster.Unknown,
		`{}`:                             cluster.Unknown,
		node("n2", "IDLE"):               cluster.Unknown,
		node("N1", "IDLE"):               cluster.Unknown,
		node("n1", "IDLE", "HOVER"):      cluster.Unknown,
		node("n1", "idle"):               cluster.Unknown,
		node("n1", "IDLE", "DOWN"):       cluster.Unknown,
		node("n1", "DYNAMIC_NORM"):       cluster.Unknown,
		`{"nodes":[{"name":"n1"}]}`:      cluster.Unknown,
		`{"nodes":[{"state":["IDLE"]}]}`: cluster.Unknown,
		`{"nodes":[{"name":"n1","state":["IDLE"]},{"name":"n1","state":["IDLE"]}]}`:               cluster.Unknown,
		`{"nodes":[{"name":"n1","state":["IDLE"]}],"errors":[{"error_number":1,"error":"half"}]}`: cluster.Unknown,
		`{"nodes":[{"name":"n1","state":["IDLE"` + strings.Repeat(`,"CLOUD"`, 40) + `]}]}`:        cluster.Unknown,
	} {
		_, c := start(t, says(http.StatusOK, answer))
		is, err := c.Membership(t.Context(), cluster.Node{Name: "n1", ID: "n-7"})
		if err != nil || is.State != want || is.Words == "" || strings.ContainsAny(is.Words+is.Reason, "\n\x1b") {
			t.Errorf("%.120s: %+v %v, want %s", answer, is, err, want)
		}
	}
}

// Slurm's controller says MIXED of a node whose last job has ended until it is asked for all nodes.
func TestANodeIsDrainedWhenItsLastJobHasEnded(t *testing.T) {
	state, counted := node("n1", "MIXED", "DRAIN"), http.StatusNotModified
	f, c := start(t, nil)
	f.answer = func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasSuffix(r.URL.Path, "/nodes/"):
			says(http.StatusOK, state)(w, r)
		case r.FormValue("update_time") != "uts4102444800":
			t.Errorf("asked %s", r.URL)
		case counted != http.StatusNotModified:
			says(counted, `{"errors":[{"error_number":1,"error":"no"}]}`)(w, r)
		default:
			state = node("n1", "IDLE", "DRAIN")
			w.WriteHeader(counted)
		}
	}
	if is, err := c.Membership(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}); err != nil || is.State != cluster.Drained || len(f.asked) != 3 {
		t.Errorf("%+v %v, asked %v", is, err, f.asked)
	}
	state, counted = node("n1", "MIXED", "DRAIN"), http.StatusInternalServerError
	if is, err := c.Membership(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}); err == nil || broker.AsError(err).Code != "cluster_refused" || is.State != "" {
		t.Errorf("%+v %v", is, err)
	}
	// An answer about a node that is empty says nothing of it.
	f.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }
	if is, err := c.Membership(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}); err == nil || is.State != "" {
		t.Errorf("%+v %v", is, err)
	}
}

func TestAStrangeServerIsNoCluster(t *testing.T) {
	for name, row := range map[string]struct {
		code   string
		answer func(http.ResponseWriter, *http.Request)
	}{
		"a token that ended":     {"cluster_token_refused", says(http.StatusUnauthorized, `Authentication failure`)},
		"a controller that does": {"cluster_token_refused", says(http.StatusNetworkAuthenticationRequired, `{"errors":[{"error_number":1007}]}`)},
		"an older Slurm": {"cluster_version_unsupported", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Unable find requested URL", http.StatusNotFound)
		}},
		"no controller":    {"cluster_refused", says(http.StatusBadGateway, `{"errors":[{"error_number":1800,"error":"Unable to contact\u001b[2J slurm"}]}`)},
		"a huge answer":    {"cluster_answer_invalid", says(http.StatusOK, `{"nodes":[],"x":"`+strings.Repeat("y", maxAnswer)+`"}`)},
		"half an answer":   {"cluster_answer_invalid", says(http.StatusOK, `{"nodes":[{"name":"n1"`)},
		"the older form":   {"cluster_answer_invalid", says(http.StatusOK, `{"nodes":[{"name":"n1","state":"idle"}]}`)},
		"two states":       {"cluster_answer_invalid", says(http.StatusOK, `{"nodes":[{"name":"n1","state":["DOWN"],"state":["IDLE"]}]}`)},
		"many errors":      {"cluster_answer_invalid", says(http.StatusOK, `{"errors":[`+strings.Repeat(`{"error_number":2018},`, 20)+`{}]}`)},
		"a page":           {"cluster_answer_invalid", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>planted-page") }},
		"a redirect":       {"cluster_answer_invalid", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }},
		"a line that ends": {"cluster_unreachable", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		f, c := start(t, row.answer)
		is, err := c.Membership(t.Context(), cluster.Node{Name: "n1", ID: "n-7"})
		if err == nil || broker.AsError(err).Code != row.code || is.State != "" {
			t.Errorf("%s: %+v %v, want %s", name, is, err, row.code)
		}
		if err != nil && (strings.Contains(err.Error(), "planted") || strings.ContainsRune(err.Error(), 0x1b)) {
			t.Errorf("%s: the error repeats what it should not: %v", name, err)
		}
		if len(f.asked) > len(versions) {
			t.Errorf("%s: %d requests", name, len(f.asked))
		}
	}
}

// A name that Slurm reads as other nodes reaches no server, in no order.
func TestNamesOfManyNodesAreRefused(t *testing.T) {
	f, c := start(t, says(http.StatusOK, `{"errors":[]}`))
	for _, name := range []string{"", "n[1-9]", "n1,n2", "ALL", "all", "../jobs", "n1?x", "N1", "-n1", strings.Repeat("n", 64)} {
		_, look := c.Membership(t.Context(), cluster.Node{Name: name})
		_, join := c.Join(t.Context(), cluster.Node{Name: name}, time.Time{})
		for _, err := range []error{look, join, drain(t, c, name, "r"), c.Remove(t.Context(), cluster.Node{Name: name})} {
			if err == nil || broker.AsError(err).Code != "cluster_node_invalid" {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	if len(f.asked) > 0 {
		t.Errorf("asked %v", f.asked)
	}
}

func drain(t *testing.T, c *Cluster, node, reason string) error {
	t.Helper()
	_, err := c.Drain(t.Context(), cluster.Node{Name: node}, cluster.DrainOrder{Reason: reason})
	return err
}

func TestOrdersGoToTheOneNodeThatTheClusterKnows(t *testing.T) {
	state := node("n1", "MIXED")
	f, c := start(t, nil)
	f.answer = func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, versions[0]):
			http.Error(w, "Unable find requested URL", http.StatusNotFound)
		case r.Method == http.MethodGet:
			says(http.StatusOK, state)(w, r)
		default:
			says(http.StatusOK, `{"errors":[]}`)(w, r)
		}
	}
	if err := drain(t, c, "n1", "hot\nPATH"); err != nil {
		t.Error(err)
	}
	if err := c.Remove(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}); err != nil {
		t.Error(err)
	}
	at := "/slurm/" + versions[1] + "/node/n1 planted-token "
	all := strings.Join(f.asked, "\n")
	if !strings.Contains(all, "POST "+at+`{"`) || !strings.Contains(all, `"state":["DRAIN"]`) || !strings.Contains(all, "DELETE "+at) || strings.Contains(all, `\n`) {
		t.Errorf("asked %s", all)
	}

	for answer, code := range map[string]string{
		node("n2", "IDLE"): "cluster_node_unknown", node("n1", "HOVER"): "cluster_node_unknown", node("n1", "IDLE", "DRAIN"): "",
		`{"errors":[{"error_number":2018}]}`: "absent",
	} {
		state, f.asked = answer, nil
		drained, remove := drain(t, c, "n1", "r"), c.Remove(t.Context(), cluster.Node{Name: "n1", ID: "n-7"})
		orders := strings.Count(strings.Join(f.asked, "\n"), "POST") + strings.Count(strings.Join(f.asked, "\n"), "DELETE")
		switch {
		case code == "cluster_node_unknown" && (broker.AsError(drained).Code != code || broker.AsError(remove).Code != code || orders > 0),
			code == "absent" && (broker.AsError(drained).Code != "cluster_node_unknown" || remove != nil || orders > 0),
			code == "" && (drained != nil || remove != nil || strings.Contains(strings.Join(f.asked, "\n"), "POST")): // keeps its reason
			t.Errorf("%s: %v, %v, asked %v", answer, drained, remove, f.asked)
		}
	}
	if err := drain(t, c, "n1", " "); err == nil || broker.AsError(err).Code != "reason_missing" {
		t.Error(err)
	}
	if _, err := c.Drain(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}, cluster.DrainOrder{Reason: "r", ForceAfter: time.Hour}); err == nil || broker.AsError(err).Code != "cluster_force_unsupported" {
		t.Error(err)
	}
	if err := c.Joined(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}); err != nil {
		t.Error(err)
	}
	f.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			says(http.StatusOK, node("n1", "IDLE"))(w, r)
		} else {
			says(http.StatusOK, `{"errors":[{"error_number":2006,"error":"Access/permission denied"}]}`)(w, r)
		}
	}
	if err := c.Remove(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}); err == nil || broker.AsError(err).Code != "cluster_refused" {
		t.Error(err)
	}
}

func TestTheJoinSecretIsACopy(t *testing.T) {
	_, c := start(t, nil)
	first, err := c.Join(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	clear(first.Key)
	if second, err := c.Join(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}, time.Time{}); err != nil || string(second.Key) != "planted-key" || second.Node != "n1" ||
		second.Controller != "ctl:6817" || second.Auth != "munge" {
		t.Errorf("%+v %v", second, err)
	}
	c.join = nil
	if _, err := c.Join(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}, time.Time{}); err == nil || broker.AsError(err).Code != "cluster_join_unset" {
		t.Error(err)
	}
}
