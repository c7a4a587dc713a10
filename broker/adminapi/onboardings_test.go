package adminapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/test/maassim"
)

// rack is a broker with one site, whose simulated region stands behind a loopback listener and uses
// the broker's clock.
type rack struct {
	*servertest.Broker
	t      *testing.T
	region *maassim.Region
	bmc    maassim.BMC
	logged *logged
}

// boot starts a broker, in place of a stopped broker.
func (r *rack) boot(on ...func(*server.Config)) {
	r.t.Helper()
	logs := func(c *server.Config) {
		c.Log = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(r.logged), zap.DebugLevel))
	}
	if r.Broker == nil {
		r.Broker = servertest.Start(r.t, append(on, logs)...)
		return
	}
	r.Broker = r.Again(r.t, logs)
}

// logged is the broker's log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) has(secret string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.text.Bytes(), []byte(secret))
}

func newRack(t *testing.T, policy string, on ...func(*server.Config)) *rack {
	t.Helper()
	r := &rack{t: t, logged: &logged{}}
	r.boot(on...)
	r.region = &maassim.Region{
		Seed: 3, Now: r.Now, Timing: maassim.Usual.Faster(1000),
		Networks: []maassim.Network{{VID: 46, CIDR: "10.10.0.0/24", Gateway: "10.10.0.1", DHCP: true}},
	}
	maas := httptest.NewServer(r.region)
	t.Cleanup(maas.Close)
	r.bmc = maassim.BMC{User: "root", Password: "planted-bmc-secret"}
	post := func(path, body string) {
		t.Helper()
		servertest.Must[json.RawMessage](t, r.Broker, http.MethodPost, path, body)
	}
	post("/maas-sites", fmt.Sprintf(`{"name":"dc1","region_code":"eu-1","api_base_url":"%s/MAAS","pxe_iface":"ens19","pxe_vlan_vid":46,"node_pxe_iface":"eno8303"}`, maas.URL))
	post("/maas-sites/dc1/credentials", fmt.Sprintf(`{"maas_token":%q,"power_user":"root","power_password":%q}`, r.region.APIKey(), r.bmc.Password))
	post("/skus", `{"id":"h100.8gpu","nics":["eno8303","eno8403"],"gpu_vendor":"nvidia","gpu_model":"H100","gpu_count":8,"gpu_memory_bytes":85899345920}`)
	servertest.Must[json.RawMessage](t, r.Broker, http.MethodPatch, "/maas-sites/dc1/profiles/default", policy)
	return r
}

// box puts the n-th machine into the rack.
func (r *rack) box(n int) api.OnboardingMachine {
	h := maassim.Box(n)
	h.BMC.User, h.BMC.Password = r.bmc.User, r.bmc.Password
	r.region.PlugIn(h)
	return api.OnboardingMachine{Hostname: fmt.Sprintf("c%02d", n), IPMIIP: h.BMC.Address}
}

func (r *rack) start(m api.OnboardingMachine) api.Onboarding {
	r.t.Helper()
	return servertest.Must[api.Onboarding](r.t, r.Broker, http.MethodPost, "/onboardings", api.OnboardingStart{SiteID: "dc1", SKUID: "h100.8gpu", OnboardingMachine: m, Reason: "new rack"})
}

func (r *rack) show(id string) api.OnboardingDetail {
	r.t.Helper()
	return servertest.Must[api.OnboardingDetail](r.t, r.Broker, http.MethodGet, "/onboardings/"+id, nil)
}

// until lets time pass until a run satisfies ok.
func (r *rack) until(id, what string, ok func(api.OnboardingDetail) bool) api.OnboardingDetail {
	r.t.Helper()
	var last api.OnboardingDetail
	if r.LetPass(func() (bool, time.Duration) {
		last = r.show(id)
		return ok(last), whileWaiting(last.Waiting)
	}) {
		return last
	}
	r.t.Fatalf("waited in vain for %s: %s at %s: %s %s %s", what, last.Status, last.CurrentStage, last.Waiting, last.ErrorCode, last.ErrorMessage)
	return last
}

// whileWaiting is how much time must pass for a run: none if the run waits for nothing.
func whileWaiting(forWhat string) time.Duration {
	if forWhat == "" {
		return 0
	}
	return 5 * time.Second
}

func atStage(stage string) func(api.OnboardingDetail) bool {
	return func(o api.OnboardingDetail) bool { return o.CurrentStage == stage }
}

var enrolToken = regexp.MustCompile(`hsn_[A-Za-z0-9_-]{43}`)

func TestAMachineIsOnboardedFromItsBMCToAnActiveNode(t *testing.T) {
	r := newRack(t, `{"require_hw_sync":false,"enable_phase2_roce":false}`)
	m := r.box(1)
	o := r.start(m)
	if o.Status != "pending" || o.NodeID != nil || o.BatchID != nil || o.Site != "dc1" || o.Profile != "default" || o.RequestedBy == "" {
		t.Errorf("started as %+v", o)
	}
	waits := r.until(o.OnboardingID, "the agent's turn", atStage("wait_for_agent_enrollment"))
	if waits.NodeID == nil || waits.MAASSystemID == nil || waits.LastObserved.MAASStatus != "Deployed" || waits.Deploys != 1 || waits.BundleDigest == "" {
		t.Errorf("before its agent comes it is %+v", waits.Onboarding)
	}
	if n := show(t, r.Broker, "c01"); n.Status != "enrolling" || n.ID != *waits.NodeID || n.MAASSystemID != *waits.MAASSystemID {
		t.Errorf("the node is %+v", n)
	}
	machine, _ := r.region.Machine(*waits.MAASSystemID)
	token := string(enrolToken.Find(machine.UserData))
	if token == "" {
		t.Fatalf("the machine was deployed with %q", machine.UserData)
	}

	r.Rested(r.t)
	node := r.EnrollMachine(t, token, "c01", *waits.MAASSystemID).Settle(t)
	done := r.until(o.OnboardingID, "its end", func(o api.OnboardingDetail) bool { return o.Ended })
	if done.Status != "completed" || *done.NodeID != node.NodeID || done.CompletedAt.IsZero() {
		t.Fatalf("it ended %+v", done.Onboarding)
	}
	n := show(t, r.Broker, "c01")
	if n.Status != "active" {
		t.Errorf("the node is %s: %s", n.Status, n.StatusReason)
	}
	if from := n; from.OnboardingMode != "maas" || from.OnboardingID != o.OnboardingID || from.RegionCode != "eu-1" || from.SiteID != o.SiteID || from.IPMIIP != m.IPMIIP || from.GPUsTotal != 8 || from.Host == "" || from.Port != 22 || from.SSHUsername != "hpcadmin" {
		t.Errorf("it comes from %+v", from)
	}
	row := servertest.Must[api.NodeList](t, r.Broker, http.MethodGet, "/nodes?hostname=c01", nil).Items[0]
	if row.RegionCode != "eu-1" || row.SiteID != o.SiteID || row.IPMIIP != m.IPMIIP || row.GPUsTotal != 8 || row.SKU != n.SKU {
		t.Errorf("the list has %+v", row)
	}
	if deploys := r.region.Count("deploy"); deploys != 1 {
		t.Errorf("MAAS was asked for %d deployments", deploys)
	}
	if seen := documented(t, r.Broker); seen["node.onboarding.completed"] != 1 {
		t.Errorf("told was %v", seen)
	}
	for _, s := range done.Stages {
		if want := s.Rescues == ""; (s.Status == "succeeded" || s.Status == "skipped") != want {
			t.Errorf("stage %s is %s", s.Stage, s.Status)
		}
	}
	r.tellsNone(o.OnboardingID, map[string]string{"the enrol token": token, "the BMC's password": r.bmc.Password, "the MAAS token": strings.Split(r.region.APIKey(), ":")[2]})
	if a := r.Ask(t, r.Token, http.MethodPost, "/onboardings/"+o.OnboardingID+"/cancel", api.ReasonBody{Reason: "late"}); a.Code() != "run_ended" {
		t.Errorf("a cancel of what has ended: %d %s", a.Status, a.Body)
	}
	if a := r.Ask(t, r.Token, http.MethodPost, "/onboardings", api.OnboardingStart{SiteID: "dc1", SKUID: "h100.8gpu", OnboardingMachine: m}); a.Code() != "hostname_taken" || !strings.Contains(string(a.Body), node.NodeID) {
		t.Errorf("the same again: %d %s", a.Status, a.Body)
	}
	rows := servertest.Must[api.AuditList](t, r.Broker, http.MethodGet, "/audit?action=run.start", nil)
	rows.Items = slices.DeleteFunc(rows.Items, func(e api.AuditEntry) bool { return e.Code != "" }) // without refusals
	if len(rows.Items) != 1 || rows.Items[0].Reason != "new rack" || rows.Items[0].Subject != "run/"+o.OnboardingID {
		t.Errorf("the start is in the audit log as %+v", rows.Items)
	}
}

// tellsNone searches for secrets in the broker's answers about a run, in its log and in all its
// files.
func (r *rack) tellsNone(run string, secrets map[string]string) {
	r.t.Helper()
	for _, path := range []string{"/onboardings/" + run, "/onboardings", "/audit?limit=1000", "/events?follow=false&after=0", "/nodes", "/tasks", "/status"} {
		a := r.Ask(r.t, r.Token, http.MethodGet, path, nil)
		for what, secret := range secrets {
			if a.Status != http.StatusOK || bytes.Contains(a.Body, []byte(secret)) {
				r.t.Errorf("%s answers %d, or tells %s", path, a.Status, what)
			}
		}
	}
	files := 0
	err := filepath.WalkDir(r.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files++
		for what, secret := range secrets {
			if bytes.Contains(text, []byte(secret)) {
				r.t.Errorf("%s holds %s", path, what)
			}
		}
		return err
	})
	if err != nil || files < 5 || !r.logged.has("level") {
		r.t.Errorf("searched %d files, %v, and an empty log", files, err)
	}
	for what, secret := range secrets {
		if r.logged.has(secret) {
			r.t.Errorf("the log tells %s", what)
		}
	}
}

func TestARunGoesOnWhereAStoppedBrokerLeftIt(t *testing.T) {
	r := newRack(t, `{"require_hw_sync":false,"enable_phase2_roce":false}`)
	o := r.start(r.box(1))
	for _, stage := range []string{"create_or_find_in_maas", "deploy_via_maas", "wait_for_agent_enrollment"} {
		r.until(o.OnboardingID, stage, func(o api.OnboardingDetail) bool {
			return slices.ContainsFunc(o.Stages, func(s api.RunStage) bool { return s.Stage == stage && s.Attempt > 0 })
		})
		r.boot()
	}
	waits := r.until(o.OnboardingID, "the agent's turn", atStage("wait_for_agent_enrollment"))
	machine, _ := r.region.Machine(*waits.MAASSystemID)
	r.Rested(r.t)
	r.EnrollMachine(t, string(enrolToken.Find(machine.UserData)), "c01", *waits.MAASSystemID).Settle(t)
	done := r.until(o.OnboardingID, "its end", func(o api.OnboardingDetail) bool { return o.Ended })
	if n := show(t, r.Broker, "c01"); done.Status != "completed" || n.Status != "active" || done.Deploys != 1 || r.region.Count("deploy") != 1 {
		t.Errorf("it ended %s, the node %s, with %d deployments (MAAS: %d)", done.Status, n.Status, done.Deploys, r.region.Count("deploy"))
	}
	seen := map[string]bool{}
	for _, e := range done.Events {
		key := fmt.Sprint(e.Stage, e.Attempt, e.Status)
		if seen[key] {
			t.Errorf("%s is recorded twice", key)
		}
		seen[key] = true
	}
}

func TestALiveRunIsNamedToWhoAsksForTheSameMachine(t *testing.T) {
	r := newRack(t, `{"require_hw_sync":false}`)
	servertest.Must[api.FreezeResult](t, r.Broker, http.MethodPost, "/freeze", api.FreezePut{Site: "dc1", Reason: "test"})
	m := r.box(1)
	o := r.start(m)
	for name, again := range map[string]api.OnboardingMachine{
		"the hostname": {Hostname: m.Hostname, IPMIIP: "10.0.0.77"}, "its other spelling": {Hostname: strings.ToUpper(m.Hostname), IPMIIP: "10.0.0.77"}, "the BMC": {Hostname: "other", IPMIIP: m.IPMIIP},
	} {
		a := r.Ask(t, r.Token, http.MethodPost, "/onboardings", api.OnboardingStart{SiteID: "dc1", SKUID: "h100.8gpu", OnboardingMachine: again})
		if a.Status != http.StatusConflict || a.Code() != "onboarding_running" || !strings.Contains(string(a.Body), o.OnboardingID) {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if w := r.show(o.OnboardingID); !strings.HasPrefix(w.Waiting, "freeze: ") || w.Status != "pending" {
		t.Errorf("at a frozen site it is %s, %q", w.Status, w.Waiting)
	}
	for code, body := range map[string]api.OnboardingStart{
		"onboarding_invalid": {SiteID: "dc1", SKUID: "h100.8gpu", OnboardingMachine: api.OnboardingMachine{Hostname: "-x", IPMIIP: "10.0.0.1"}},
		"sku_not_found":      {SiteID: "dc1", SKUID: "none", OnboardingMachine: m},
		"site_not_found":     {SiteID: "dc2", SKUID: "h100.8gpu", OnboardingMachine: m},
		"profile_not_found":  {SiteID: "dc1", ProfileID: "none", SKUID: "h100.8gpu", OnboardingMachine: m},
	} {
		if a := r.Ask(t, r.Token, http.MethodPost, "/onboardings", body); a.Code() != code {
			t.Errorf("want %s: %d %s", code, a.Status, a.Body)
		}
	}
	if a := r.Ask(t, r.Token, http.MethodPost, "/onboardings/"+o.OnboardingID+"/cancel", api.ReasonBody{}); a.Code() != "reason_missing" {
		t.Errorf("a cancel without a reason: %d %s", a.Status, a.Body)
	}
	gone := servertest.Must[api.Onboarding](t, r.Broker, http.MethodPost, "/onboardings/"+o.OnboardingID+"/cancel", api.ReasonBody{Reason: "wrong rack"})
	if gone.Status != "cancelled" {
		t.Errorf("cancelled before it began, it is %s", gone.Status)
	}
	if again := r.start(m); again.OnboardingID == o.OnboardingID {
		t.Error("two runs have one id")
	}
}

func TestABatchIsWholeOrNotAtAll(t *testing.T) {
	r := newRack(t, `{"require_hw_sync":false,"batch_max_parallel":2}`)
	servertest.Must[api.FreezeResult](t, r.Broker, http.MethodPost, "/freeze", api.FreezePut{Site: "dc1", Reason: "test"})
	live := r.start(r.box(1))
	batch := api.OnboardingBatch{SiteID: "dc1", SKUID: "h100.8gpu"}
	for n := 2; n <= 4; n++ {
		batch.Nodes = append(batch.Nodes, r.box(n))
	}
	for code, last := range map[string]api.OnboardingMachine{
		"onboarding_running": {Hostname: "c01", IPMIIP: "10.0.0.9"}, "onboarding_invalid": {Hostname: "c09", IPMIIP: batch.Nodes[0].IPMIIP},
	} {
		bad := batch
		bad.Nodes = append(slices.Clone(batch.Nodes), last)
		if a := r.Ask(t, r.Token, http.MethodPost, "/onboardings/batch", bad); a.Code() != code {
			t.Errorf("want %s: %d %s", code, a.Status, a.Body)
		}
	}
	plan := servertest.Must[api.OnboardingPlan](t, r.Broker, http.MethodPost, "/onboardings/plan", batch)
	if len(plan.Nodes) != 3 || plan.Parallel != 2 || plan.ExpectedSeconds == 0 || !slices.ContainsFunc(plan.Stages, func(s api.PlannedStage) bool { return s.Destructive != "" }) {
		t.Errorf("the plan is %+v", plan)
	}
	if all := servertest.Must[api.OnboardingList](t, r.Broker, http.MethodGet, "/onboardings", nil); len(all.Items) != 1 {
		t.Errorf("%d runs after refusals and a plan", len(all.Items))
	}

	started := servertest.Must[api.OnboardingBatchStarted](t, r.Broker, http.MethodPost, "/onboardings/batch", batch)
	if len(started.Onboardings) != 3 || started.Onboardings[2].NodeID != nil {
		t.Fatalf("started %+v", started)
	}
	list := func(query string) api.OnboardingList {
		t.Helper()
		return servertest.Must[api.OnboardingList](t, r.Broker, http.MethodGet, "/onboardings?"+query, nil)
	}
	mine := list("batch_id=" + started.BatchID)
	if len(mine.Items) != 3 || mine.Batch == nil || mine.Batch.Counts["pending"] != 3 || mine.Batch.Parallel != 2 || *mine.Items[0].BatchID != started.BatchID {
		t.Errorf("the batch is %+v", mine)
	}
	first := list("limit=3")
	if rest := list("limit=3&cursor=" + first.Next); len(first.Items) != 3 || first.Next == "" || len(rest.Items) != 1 || rest.Next != "" {
		t.Errorf("pages of %d and %d", len(first.Items), len(rest.Items))
	}
	for query, want := range map[string]int{
		"status=pending": 4, "status=live": 4, "status=completed": 0, "hostname=C03": 1, "site=dc1&stage=load_site_config": 4, "class=hardware_mismatch": 0, "site=dc9": 0,
	} {
		if got := list(query); len(got.Items) != want {
			t.Errorf("%s lists %d, want %d", query, len(got.Items), want)
		}
	}
	if a := r.Ask(t, r.Token, http.MethodGet, "/onboardings?status=gone", nil); a.Code() != "status_unknown" {
		t.Errorf("an unknown status: %d %s", a.Status, a.Body)
	}
	for _, action := range []string{"cancel", "mark-manual-intervention"} {
		servertest.Must[api.Onboarding](t, r.Broker, http.MethodPost, "/onboardings/"+started.Onboardings[0].OnboardingID+"/"+action, api.ReasonBody{Reason: "test"})
		if action == "cancel" {
			started.Onboardings = started.Onboardings[1:]
		}
	}
	retried := servertest.Must[api.OnboardingBatchRetried](t, r.Broker, http.MethodPost, "/onboardings/batch/"+started.BatchID+"/retry", api.ReasonBody{})
	if len(retried.Retried)+len(retried.Refused) != 0 || retried.Continued {
		t.Errorf("of a batch in which a person has stopped a run, and nothing failed, it retried %+v", retried)
	}

	elsewhere := r.NewToken(t, api.TokenCreate{Name: "elsewhere", Role: "operator", Sites: []string{"dc2"}})
	for path, code := range map[string]string{
		"POST /onboardings/" + live.OnboardingID + "/resume": "run_not_found", "GET /onboardings/" + live.OnboardingID: "run_not_found",
		"POST /onboardings/batch/" + started.BatchID + "/retry": "batch_not_found", "GET /onboardings?batch_id=" + started.BatchID: "batch_not_found",
		"GET /onboardings?site=dc1": "site_forbidden",
	} {
		method, at, _ := strings.Cut(path, " ")
		if a := r.Ask(t, elsewhere, method, at, body(method)); a.Code() != code {
			t.Errorf("%s by a token of another site: %d %s, want %s", path, a.Status, a.Body, code)
		}
	}
	var seen api.OnboardingList
	if a := r.Ask(t, elsewhere, http.MethodGet, "/onboardings", nil); json.Unmarshal(a.Body, &seen) != nil || len(seen.Items) != 0 {
		t.Errorf("a token of another site sees %s", a.Body)
	}
}
