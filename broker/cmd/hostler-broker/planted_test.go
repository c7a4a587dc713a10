package main

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/maassim"
)

// TestNoSecretOfASiteIsAnywhere runs onboardings that succeed and fail with known secrets, and then
// searches for the secrets wherever the broker leaves data: all rows of its database, the bytes of
// each of its files, its log, its arguments and environment, its metrics and events, and every GET
// of its API. MAAS is away, refuses the key, echoes its input, and cannot switch power; and callers
// send secrets in wrong fields.
func TestNoSecretOfASiteIsAnywhere(t *testing.T) {
	t.Parallel()
	var echoes atomic.Int32 // calls answered with an echo of their input
	p := newProcess(t, `{"require_hw_sync":true,"hardware_sync_interval":"5m","retry_backoff_seconds":1}`, func(_ *process, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if left := echoes.Load(); r.Method != http.MethodGet && left > 0 && echoes.CompareAndSwap(left, left-1) {
				_ = r.ParseMultipartForm(1 << 20)
				status := []int{503, 500}[left%2]
				if left == 4 && strings.HasSuffix(r.URL.Path, "/machines/") && r.URL.Query().Get("op") == "" {
					status = 400 // a refusal, which ends most stages; the broker looks whether the machine was made
				}
				http.Error(w, fmt.Sprint("cannot: ", r.Header["Authorization"], r.PostForm, r.PostForm.Encode()), status)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	s := &search{p: p, planted: map[string]string{}}
	s.plant("the BMCs' password", p.bmc.Password)
	s.key(p.region.APIKey())
	s.send(http.MethodPost, "/maas-sites/dc1/credentials", `{"deploy_password":"planted-deploy-password","reason":"test"}`, 200)
	s.plant("the deploy user's password", "planted-deploy-password")
	s.send(http.MethodPost, "/maas-sites/dc1/power-overrides", `{"selector_type":"hostname","selector_value":"c002","power_user":"root","power_password":"planted-override"}`, 200)
	s.plant("an override's password", "planted-override")

	s.registry()
	s.send(http.MethodPut, "/source-credentials/models", `{"source":"s3:models","endpoint":"https://s3.example","region":"eu-1","key_id":"AK1","secret":"planted-source","reason":"test"}`, 200)
	s.plant("a source's secret", "planted-source")
	s.send(http.MethodPut, "/source-credentials/hub", `{"source":"other:models","secret":"planted-refused-source","reason":"test"}`, 422)
	s.plant("a refused source's secret", "planted-refused-source")
	s.send(http.MethodPut, "/clusters/lab", `{"backend":"slurm","url":"https://slurm.example","token":"planted-cluster-token","controller":"ctl:6817","join_auth":"munge","join_secret":"`+
		base64.StdEncoding.EncodeToString([]byte("planted-munge-key-planted-munge-key"))+`","reason":"test"}`, 200)
	s.plant("a cluster's token", "planted-cluster-token")
	s.plant("a cluster's key", "planted-munge-key")

	// Refused input is not repeated anywhere, either.
	s.plant("what was refused", "planted-refused")
	for _, body := range []string{
		`{"maas_token":"planted-refused:planted-refused:planted-refused"}`, `{"maas_token":"planted-refused"}`, `{"maas_tokn":"planted-refused"}`,
		`{"power_password":"planted-refused"}`, `{"power_user":7,"power_password":"planted-refused"}`, `{"power_password":"planted-refused`, `{"deploy_password":["planted-refused"]}`,
		`{"power_user":"root","power_password":"planted-refused\u0000"}`, `{"maas_token":"` + strings.Repeat("planted-refused", 40) + `"}`,
	} {
		s.send(http.MethodPost, "/maas-sites/dc1/credentials", body, 0)
	}
	s.send(http.MethodPatch, "/maas-sites/dc1", `{"api_base_url":"http://planted-refused:planted-refused@10.0.0.1/MAAS"}`, 0)

	// c001 succeeds in the end, c002 has the wrong login of its BMC, c003 fails to find its
	// datasource once.
	for n := 1; n <= 3; n++ {
		m := p.box(n)
		s.hostnames = append(s.hostnames, m.Hostname)
		o := servertest.Must[api.Onboarding](t, p.Broker, http.MethodPost, "/onboardings", api.OnboardingStart{SiteID: "dc1", SKUID: "h100.8gpu", OnboardingMachine: m})
		s.runs = append(s.runs, o.OnboardingID)
	}
	p.region.Inject(
		maassim.Fault{Kind: maassim.DatasourceFails, Machine: maassim.Box(3).Serial},
		maassim.Fault{Kind: maassim.Unavailable, Op: "deploy"}, maassim.Fault{Kind: maassim.InternalAfter, Op: "allocate"},
	)
	echoes.Store(4)
	revoked := false
	s.until("their ends", func(all []api.OnboardingDetail) bool {
		switch held := strings.Contains(all[0].Waiting+all[2].Waiting, "unreachable"); {
		case !revoked && all[0].CurrentStage == "wait_for_hardware_sync_healthy":
			p.region.RevokeKeys("admin")
			revoked = true
		case revoked && held && len(s.keys) == 1:
			key := p.region.RenewKeys("admin")
			s.key(key)
			s.send(http.MethodPost, "/maas-sites/dc1/credentials", fmt.Sprintf(`{"maas_token":%q}`, key), 200)
		}
		return all[0].Ended && all[2].Ended && strings.HasPrefix(all[1].Status, "failed")
	})
	all := s.show()
	if all[0].Status != "completed" || all[1].FailureClass != "bmc_power_failure" || all[2].Status != "completed" || p.region.Happened(maassim.Box(3).Serial, "deploy") != 2 || len(s.keys) != 2 || echoes.Load() > 0 {
		for _, o := range all {
			t.Errorf("%s is %s at %s: %s %s, %d deployments", o.Hostname, o.Status, o.CurrentStage, o.ErrorCode, o.ErrorMessage, o.Deploys)
		}
	}
	s.send(http.MethodPut, "/nodes/"+*all[0].NodeID+"/credentials", api.NodeCredentials{Reason: "test", MAASMachineToken: taskcatalog.MAASMachineToken{
		Endpoint: "http://10.0.0.2:5248/MAAS/metadata/status/abc", ConsumerKey: "planted-consumer", TokenKey: "planted-token-key", TokenSecret: "planted-token-secret",
	}}, 200)
	s.plant("a machine's token", "planted-token-secret")
	for _, m := range p.region.Machines() {
		for _, token := range enrolToken.FindAll(m.UserData, -1) {
			s.plant("an enrol token of "+m.Hostname, string(token))
		}
		if m.Token != "" {
			s.plant("the token of machine "+m.Hostname, m.Token)
		}
	}

	s.walk()
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		s.look("GET "+path, p.Ask(t, p.Token, http.MethodGet, p.OperatorURL()+path, nil).Body)
	}
	for _, name := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, name))
		if err != nil || len(text) == 0 {
			t.Error(err)
		}
		s.look(name+" of the process", text)
	}
	p.kill() // so that the last writes are still in the write-ahead log
	s.kept()
	s.files()
	s.rows()
	s.judge()
}

// search looks for the planted secrets.
type search struct {
	p         *process
	planted   map[string]string // secret → its description
	keys      []string          // API keys
	runs      []string
	hostnames []string
	looked    []string
	texts     [][]byte
}

func (s *search) plant(what, secret string) {
	s.p.t.Helper()
	if len(secret) < 12 {
		s.p.t.Fatalf("%s is too short to be searched for", what)
	}
	s.planted[secret] = what
}

// key plants an API key of MAAS in parts, because the broker uses the parts.
func (s *search) key(key string) {
	s.keys = append(s.keys, key)
	for i, part := range strings.Split(key, ":") {
		s.plant(fmt.Sprintf("part %d of API key %d", i+1, len(s.keys)), part)
	}
}

// registry stores an account at a registry whose token service echoes any input that is not a
// login.
func (s *search) registry() {
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		switch {
		case r.URL.Path != "/token":
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="hub"`)
			w.WriteHeader(http.StatusUnauthorized)
		case password != "planted-registry":
			http.Error(w, fmt.Sprint("cannot: ", password, r.Header), http.StatusUnauthorized)
		default:
			_, _ = fmt.Fprint(w, `{"token":"planted-pull-token"}`)
		}
	}))
	s.p.t.Cleanup(hub.Close)
	at := "/registry-credentials/" + strings.TrimPrefix(hub.URL, "http://")
	s.send(http.MethodPut, at, `{"username":"pull","password":"planted-registry","plain_http":true,"reason":"test"}`, 200)
	s.plant("a registry's password", "planted-registry")
	s.plant("a registry's token", "planted-pull-token")
	s.plant("a registry's login as it is sent", base64.StdEncoding.EncodeToString([]byte("pull:planted-registry")))
	for _, body := range []string{
		`{"username":"pull","password":"planted-refused","plain_http":true,"reason":"test"}`,
		`{"username":"pull","password":["planted-refused"],"reason":"test"}`, `{"username":"a:b","password":"planted-refused","reason":"test"}`,
		`{"username":"pull","password":"planted-refused\u0000","reason":"test"}`, `{"username":"pull","password":"planted-refused"}`, `{"username":"pull","passwd":"planted-refused"}`,
	} {
		s.send(http.MethodPut, at, body, 0)
	}
}

// send makes a request whose answer is searched later. status 0: refused.
func (s *search) send(method, path string, body any, status int) {
	s.p.t.Helper()
	a := s.p.Ask(s.p.t, s.p.Token, method, path, body)
	if status != 0 && a.Status != status || status == 0 && (a.Status < 400 || a.Status >= 500) {
		s.p.t.Errorf("%s %s: %d %s", method, path, a.Status, a.Body)
	}
	s.look(method+" "+path, a.Body)
}

func (s *search) look(where string, text []byte) {
	s.looked, s.texts = append(s.looked, where), append(s.texts, text)
}

func (s *search) show() (all []api.OnboardingDetail) {
	for _, id := range s.runs {
		all = append(all, servertest.Must[api.OnboardingDetail](s.p.t, s.p.Broker, http.MethodGet, "/onboardings/"+id, nil))
	}
	return all
}

// until lets time pass and agents enrol until the runs satisfy ok. All intermediate views of the
// runs are searched, too.
func (s *search) until(what string, ok func([]api.OnboardingDetail) bool) {
	p, up := s.p, map[string]bool{}
	p.t.Helper()
	for late := time.Now().Add(90 * time.Second); ; <-time.After(20 * time.Millisecond) {
		all := s.show()
		raw, err := json.Marshal(all)
		if err != nil {
			p.t.Fatal(err)
		}
		s.look("a run that is under way", raw)
		if ok(all) {
			return
		}
		if time.Now().After(late) {
			p.t.Fatalf("waited in vain for %s: %s", what, raw)
		}
		waits := true
		for _, o := range all {
			waits = waits && (o.Waiting != "" || o.Ended || strings.HasPrefix(o.Status, "failed") || !o.UpdatedAt.IsZero() && p.Now().Sub(o.UpdatedAt) > time.Second)
			if o.CurrentStage == "wait_for_agent_enrollment" && !o.Ended && !up[o.Hostname] {
				up[o.Hostname] = true
				p.enrol(o.Hostname, *o.MAASSystemID)
			}
		}
		if waits {
			p.Advance(5 * time.Second)
		}
	}
}

// walk searches the answers of every GET of the API, for every existing object.
func (s *search) walk() {
	p, t := s.p, s.p.t
	t.Helper()
	var remote struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(p.Ask(t, p.Token, http.MethodGet, p.OperatorURL()+"/openapi.json", nil).Body, &remote); err != nil {
		t.Fatal(err)
	}
	of := map[string][]string{"site": {"dc1"}, "profile": {"default"}, "sku": {"h100.8gpu"}, "onboarding": s.runs}
	for _, n := range servertest.Must[api.NodeList](t, p.Broker, http.MethodGet, "/nodes", nil).Items {
		of["node"] = append(of["node"], n.ID)
	}
	for _, k := range servertest.Must[api.TaskList](t, p.Broker, http.MethodGet, "/tasks", nil).Items {
		of["task"] = append(of["task"], k.ID)
	}
	of["type"] = append(of["type"], taskcatalog.IDs()...)
	turnover := servertest.Must[api.Decommission](t, p.Broker, http.MethodPost, "/nodes/"+of["node"][0]+"/decommission", api.DecommissionStart{Mode: "soft_reset", Reason: "test"})
	of["decommission"] = []string{turnover.DecommissionID}
	of["run"] = []string{"u-0123456789abcdef"}                                                                            // of an agent: there is none
	of["rollout"] = []string{"u-0123456789abcdef"}                                                                        // nor a rollout
	of["terminal"], of["recording"] = []string{"ts-0123456789abcdef"}, []string{"ts-0123456789abcdef"}                    // nor a session
	of["certificate"], of["attestation"] = []string{turnover.DecommissionID + ".1"}, []string{"att-0123456789abcdef0123"} // there are none
	org := servertest.Must[api.Organisation](t, p.Broker, http.MethodPost, "/organisations", api.OrganisationCreate{Name: "acme"})
	project := servertest.Must[api.Project](t, p.Broker, http.MethodPost, "/organisations/acme/projects", api.ProjectCreate{Name: "lab"})
	member := servertest.Must[api.Member](t, p.Broker, http.MethodPost, "/projects/lab/members", api.MemberAdd{Subject: "ada", Role: "project_viewer"})
	of["organisation"], of["project"], of["member"] = []string{org.ID}, []string{project.ID}, []string{member.ID}
	of["allocation"] = []string{s.allocated(project, member)}
	of["reservation"] = []string{servertest.Must[api.PlatformReservation](t, p.Broker, http.MethodPost, "/reservations", api.ReservationCreate{
		Project: project.ID, SKU: "h100.8gpu", Nodes: 1, To: p.Now().Add(time.Hour), Reason: "test",
	}).ID}
	of["maintenance"] = []string{servertest.Must[api.MaintenanceDetail](t, p.Broker, http.MethodPost, "/maintenances", api.MaintenanceCreate{
		Node: of["node"][0], Category: "planned", From: p.Now().Add(time.Hour), Until: p.Now().Add(2 * time.Hour), Reason: "test",
	}).ID}
	of["definition"] = []string{"gpu.host.bootstrap@v1"}
	of["operation"] = []string{"op-0123456789abcdef"} // there is none: see adminapi
	of["webhook"] = []string{"whk-0123456789abcdef"}  // there is none: see adminapi about its secret
	of["operation_type"] = []string{"model.artifact.stage"}
	for _, level := range []string{"", "/organisations/acme", "/projects/lab"} {
		s.send(http.MethodPut, level+"/operation-policies/model.artifact.stage", `{"policy":{"allowed_artifact_sources":["s3:models"]}}`, 200)
	}
	query := map[string]string{"/find": "?q=c001", "/allocations/explain": "?sku=h100.8gpu", "/events": "?follow=false&after=0", "/projects/{project}/events": "?follow=false&after=0", "/audit": "?limit=1000", "/nodes/{node}/resolver/explain": "?step=gpu.scrub.overwrite", "/terminal-policy": "?site=dc1"}
	answered := 0
	for path, methods := range remote.Paths {
		path = strings.TrimPrefix(strings.TrimPrefix(path, api.Prefix), api.TenantPrefix)
		if methods["get"] == nil {
			continue
		}
		for _, one := range filled(t, path, of) {
			var a servertest.Answer
			servertest.Eventually(t, "an answer", func() bool { // a token may ask 50 times a second
				a = p.Ask(t, p.Token, http.MethodGet, one+query[path], nil)
				return a.Status != http.StatusTooManyRequests
			})
			s.look("GET "+one, a.Body)
			switch {
			case a.Status >= 500 || a.Status == http.StatusUnprocessableEntity:
				t.Errorf("GET %s: %d %s", one+query[path], a.Status, a.Body)
			case a.Status == http.StatusOK:
				answered++
			}
		}
	}
	if answered < 40 || len(of["task"]) == 0 || len(of["node"]) < 2 {
		t.Errorf("%d answers only, of %v", answered, of)
	}
}

// filled is a path with each possible value of its variables.
func filled(t testing.TB, path string, of map[string][]string) []string {
	t.Helper()
	before, rest, has := strings.Cut(path, "{")
	if !has {
		return []string{path}
	}
	name, after, _ := strings.Cut(rest, "}")
	if len(of[name]) == 0 {
		t.Fatalf("%s: this test must learn what a {%s} is", path, name)
	}
	var out []string
	for _, value := range of[name] {
		out = append(out, filled(t, before+value+after, of)...)
	}
	return out
}

// allocated gives a project a node, and returns the id of the allocation. The machines poll no broker
// that started again, so the time of their last contact is written here.
func (s *search) allocated(project api.Project, member api.Member) string {
	t, p := s.p.t, s.p
	db, err := sql.Open("sqlite", "file:"+filepath.Join(p.Dir, "hostler.db")+"?_pragma=busy_timeout(5000)")
	if err == nil {
		_, err = db.Exec(`UPDATE nodes SET last_contact_at = ?`, p.Now().Add(time.Minute).UnixMicro())
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	key := servertest.Must[api.SSHKey](t, p.Broker, http.MethodPost, "/members/"+member.ID+"/keys", api.SSHKeyAdd{
		PublicKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIA2gT4F2m5C1yqXZ7u0cSxkq1sBzqH4q5l0S9m3v0aA",
	})
	servertest.Must[api.Quota](t, p.Broker, http.MethodPut, "/projects/"+project.ID+"/quotas/h100.8gpu", api.QuotaPut{Nodes: 1, GPUs: 8})
	var made api.Allocation
	servertest.Eventually(t, "a node that fits", func() bool {
		a := p.Ask(t, p.Token, http.MethodPost, "/projects/"+project.ID+"/allocations", api.AllocationCreate{SKU: "h100.8gpu", Nodes: 1, SSHKeyIDs: []string{key.ID}})
		if a.Code() == "sku_unavailable" {
			return false
		}
		return a.Status == http.StatusCreated && json.Unmarshal(a.Body, &made) == nil
	})
	return made.ID
}

// kept plants the secrets that the broker itself made and stores.
func (s *search) kept() {
	t, dir := s.p.t, filepath.Join(s.p.Dir, "secrets")
	keeper, err := secrets.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = keeper.Close() }()
	made := 0
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		name, is := strings.CutSuffix(strings.TrimPrefix(path, dir+"/"), ".age")
		if err != nil || e.IsDir() || !is {
			return err
		}
		value, err := keeper.Get(t.Context(), name)
		if err != nil {
			return err
		}
		var doc map[string]any
		switch {
		case json.Unmarshal(value, &doc) != nil:
			s.plant("secret "+name, string(value))
		case doc["private_key"] != nil:
			// One line of the key is distinctive enough.
			lines := strings.Split(strings.TrimSpace(doc["private_key"].(string)), "\n")
			for _, line := range lines[1 : len(lines)-1] {
				if !strings.HasPrefix(line, "b3BlbnNzaC1rZXk") && len(line) > 40 { // the first says that it is a key, and which
					s.plant("the deploy user's private key", line)
				}
			}
		default:
			return nil
		}
		made++
		return nil
	})
	if err != nil || made < 2 {
		t.Errorf("%d secrets are the broker's own, %v", made, err)
	}
}

// files searches the bytes of all the broker's files, and its log.
func (s *search) files() {
	seen := map[string]bool{}
	err := filepath.WalkDir(s.p.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		seen[filepath.Base(path)] = len(text) > 0
		s.look("file "+strings.TrimPrefix(path, s.p.dir), text)
		return err
	})
	for _, name := range []string{"hostler.db", "hostler.db-wal", "broker.log"} {
		if err != nil || !seen[name] {
			s.p.t.Errorf("%v; %s is not there", err, name)
		}
	}
}

// rows searches every column of every table.
func (s *search) rows() {
	t := s.p.t
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.p.Dir, "hostler.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	all := func(query string) (out [][]any) {
		t.Helper()
		rows, err := db.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		names, err := rows.Columns()
		for err == nil && rows.Next() {
			row, at := make([]any, len(names)), make([]any, len(names))
			for i := range row {
				at[i] = &row[i]
			}
			err = rows.Scan(at...)
			out = append(out, row)
		}
		if err != nil || rows.Err() != nil {
			t.Fatal(err, rows.Err())
		}
		return out
	}
	full := 0
	for _, table := range all(`SELECT name FROM sqlite_master WHERE type = 'table'`) {
		rows := all(fmt.Sprintf(`SELECT * FROM %q`, table[0]))
		for _, row := range rows {
			for i, v := range row {
				if raw, is := v.([]byte); is {
					row[i] = string(raw)
				}
			}
			s.look(fmt.Sprint("table ", table[0]), fmt.Append(nil, row...))
		}
		if len(rows) > 0 {
			full++
		}
	}
	if full < 15 {
		t.Errorf("%d tables have rows", full)
	}
}

// judge searches the collected data for each secret, in plain and encoded form, and for known
// contents, which prove that the search has looked.
func (s *search) judge() {
	t := s.p.t
	found := map[string]bool{}
	for secret, what := range s.planted {
		for _, spelled := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret))} {
			for i, text := range s.texts {
				if at := bytes.Index(text, []byte(spelled)); at >= 0 && !found[what+s.looked[i]] {
					found[what+s.looked[i]] = true
					t.Errorf("%s tells %s: …%s…", s.looked[i], what, text[max(0, at-60):at])
				}
			}
		}
	}
	for _, where := range []string{"table chain_runs", "table chain_events", "GET /audit", "GET /onboardings", "GET /nodes", "GET /events", "file /broker/hostler.db-wal", "a run that is under way"} {
		speaks := false
		for i, text := range s.texts {
			speaks = speaks || s.looked[i] == where && bytes.Contains(text, []byte(s.speaksOf(where)))
		}
		if !speaks {
			t.Errorf("%s was not looked at as it should have been: it does not speak of %s", where, s.speaksOf(where))
		}
	}
	t.Logf("%d secrets were searched for in %d texts", len(s.planted), len(s.texts))
}

// speaksOf is a text that must be found in a place.
func (s *search) speaksOf(where string) string {
	switch where {
	case "table chain_events", "GET /audit", "GET /events":
		return s.runs[0]
	}
	return s.hostnames[0]
}
