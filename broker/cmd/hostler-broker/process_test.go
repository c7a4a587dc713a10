package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/test/loopback"
	"github.com/hostler/hostler/test/maassim"
)

// clockFile names a file with the offset of the program's clock. Leases use the same clock, unless
// ownClock declares this clock to be a machine's time of day that somebody has set: then leases use
// the database's clock, and the store must cope with such a machine.
const (
	clockFile = "HOSTLER_TEST_CLOCK"
	ownClock  = "HOSTLER_TEST_OWN_CLOCK"
)

// followClock makes the program use a test's clock, which the test may set ahead at any time.
func followClock() {
	path := os.Getenv(clockFile)
	if path == "" {
		return
	}
	var ahead atomic.Int64
	var own storetest.Machine
	read := func() {
		if text, err := os.ReadFile(path); err == nil {
			if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
				ahead.Store(n)
				own.Set(time.Duration(n))
			}
		}
	}
	read()
	go func() {
		for range time.Tick(2 * time.Millisecond) {
			read()
		}
	}()
	if os.Getenv(ownClock) != "" {
		now, machineNow = own.Now, own.Now
		return
	}
	now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	storeNow = now
}

// process is the broker as a process of its own, on SQLite unless its arguments say otherwise, with
// one site whose simulated region stands behind a loopback listener. The test owns their clock.
type process struct {
	*servertest.Broker
	t      testing.TB
	dir    string
	cmd    *exec.Cmd
	ended  chan struct{} // closed when cmd has
	ahead  *atomic.Int64
	clock  string   // the file with the offset
	args   []string // beside the common arguments
	listen [3]string
	region *maassim.Region
	maas   *httptest.Server
	bmc    maassim.BMC
	client *http.Client
}

// newProcess starts a broker with a site dc1, whose region answers through door. The preparations
// run before the start.
func newProcess(t testing.TB, policy string, door func(p *process, next http.Handler) http.Handler, prepare ...func(p *process)) *process {
	t.Helper()
	p := &process{t: t, dir: t.TempDir(), ahead: new(atomic.Int64), bmc: maassim.BMC{User: "root", Password: "planted-bmc-password"}}
	p.clock = filepath.Join(p.dir, "clock")
	p.Advance(0)
	p.region = &maassim.Region{
		Seed: 11, Now: p.Now, Timing: maassim.Usual.Faster(1e6),
		Networks: []maassim.Network{{VID: 46, CIDR: "10.10.0.0/20", Gateway: "10.10.0.1", DHCP: true}},
	}
	p.maas = httptest.NewServer(door(p, p.region))
	t.Cleanup(p.maas.Close)
	t.Cleanup(p.kill)
	for _, f := range prepare {
		f(p)
	}
	p.boot()
	post := func(path, body string) {
		t.Helper()
		servertest.Must[json.RawMessage](t, p.Broker, http.MethodPost, path, body)
	}
	post("/maas-sites", fmt.Sprintf(`{"name":"dc1","region_code":"eu-1","api_base_url":"%s/MAAS","pxe_iface":"ens19","pxe_vlan_vid":46,"node_pxe_iface":"eno8303"}`, p.maas.URL))
	post("/maas-sites/dc1/credentials", fmt.Sprintf(`{"maas_token":%q,"power_user":"root","power_password":%q}`, p.region.APIKey(), p.bmc.Password))
	post("/skus", `{"id":"h100.8gpu","nics":["eno8303","eno8403"],"gpu_vendor":"nvidia","gpu_model":"H100","gpu_count":8,"gpu_memory_bytes":85899345920}`)
	servertest.Must[json.RawMessage](t, p.Broker, http.MethodPatch, "/maas-sites/dc1/profiles/default", policy)
	return p
}

// Now is the clock of broker and region.
func (p *process) Now() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }

// Advance sets the clock ahead.
func (p *process) Advance(d time.Duration) {
	p.t.Helper()
	err := os.WriteFile(p.clock+".new", strconv.AppendInt(nil, p.ahead.Add(int64(d)), 10), 0o600)
	if err == nil {
		err = os.Rename(p.clock+".new", p.clock)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

var readyLine = regexp.MustCompile(`^ready operators=(https://\S+) agents=(https://\S+) relay=\S+$`)

// boot starts the program, at its previous addresses if it ran before.
func (p *process) boot() {
	p.t.Helper()
	for i := range p.listen {
		if p.listen[i] != "" {
			continue
		}
		address, err := loopback.Address()
		if err != nil {
			p.t.Fatal(err)
		}
		p.listen[i] = address
	}
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	data := p.data()
	p.cmd = exec.Command("hostler-broker", append([]string{"serve", "--data-dir", data, "--listen", p.listen[0], "--agent-listen", p.listen[1], "--relay-listen", p.listen[2]}, p.args...)...)
	// Its memory is measured, so its garbage collector works as in production.
	p.cmd.Env = append(os.Environ(), clockFile+"="+p.clock, "GOGC=100")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = log
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	_ = log.Close()
	if err != nil {
		p.t.Fatal(err)
	}
	ready, ended := make(chan []string, 1), make(chan struct{})
	p.ended = ended
	cmd := p.cmd
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if m := readyLine.FindStringSubmatch(lines.Text()); m != nil {
				ready <- m[1:]
			}
		}
		_ = cmd.Wait() // the log says how it ended
		close(ended)
	}()
	select {
	case at := <-ready:
		if p.Broker == nil {
			p.Broker = servertest.Attach(p.t, data, at[0], at[1], p.Now)
			p.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: pki.ClientConfig(p.Roots, nil, p.Now)}}
		}
	case <-p.ended:
		p.t.Fatalf("the broker ended before it was ready: %s", p.log())
	case <-time.After(30 * time.Second):
		p.t.Fatalf("the broker is not ready: %s", p.log())
	}
}

func (p *process) data() string { return filepath.Join(p.dir, "broker") }

func (p *process) logFile() string { return filepath.Join(p.dir, "broker.log") }

func (p *process) log() []byte {
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		p.t.Error(err)
	}
	return text
}

// kill ends the program as a power cut would.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Error(err)
	}
	<-p.ended
	if p.client != nil {
		p.client.CloseIdleConnections()
	}
}

// peek is a GET to a broker that may be gone.
func (p *process) peek(path string, into any) error {
	req, err := http.NewRequest(http.MethodGet, p.OperatorURL()+api.Path(path), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+p.Token)
	res, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, res.Status)
	}
	return json.NewDecoder(res.Body).Decode(into)
}

// mustPost is a POST that must succeed, from any goroutine.
func (p *process) mustPost(path string, body any) {
	raw, err := json.Marshal(body)
	if err == nil {
		var req *http.Request
		if req, err = http.NewRequest(http.MethodPost, p.OperatorURL()+api.Path(path), bytes.NewReader(raw)); err == nil {
			req.Header.Set("Authorization", "Bearer "+p.Token)
			req.Header.Set("Content-Type", "application/json")
			var res *http.Response
			if res, err = p.client.Do(req); err == nil {
				_ = res.Body.Close()
				if res.StatusCode/100 != 2 {
					err = errors.New(res.Status)
				}
			}
		}
	}
	if err != nil {
		p.t.Errorf("%s: %v", path, err)
	}
}

// sleeps reports whether a run waits for time to pass. A run that waits for a slow broker does not
// count, because the clock must not run away from the broker.
func (p *process) sleeps(run string) bool {
	_, owner, due := p.row(run)
	return owner == "" && due.After(p.Now())
}

// row is the run's stage, its present owner, and its due time, as stored on disk.
func (p *process) row(run string) (stage, owner string, due time.Time) {
	var micros int64
	db, err := sql.Open("sqlite", "file:"+filepath.Join(p.Dir, "hostler.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	if err == nil {
		defer func() { _ = db.Close() }()
		err = db.QueryRow(`SELECT stage, lease_owner, due_at FROM chain_runs WHERE id = ?`, run).Scan(&stage, &owner, &micros)
	}
	if err != nil {
		p.t.Error(err)
	}
	return stage, owner, time.UnixMicro(micros)
}

// box puts the n-th machine into the rack.
func (p *process) box(n int) api.OnboardingMachine {
	h := maassim.Box(n)
	h.BMC.User, h.BMC.Password = p.bmc.User, p.bmc.Password
	p.region.PlugIn(h)
	return api.OnboardingMachine{Hostname: fmt.Sprintf("c%03d", n), IPMIIP: h.BMC.Address}
}

var enrolToken = regexp.MustCompile(`hsn_[A-Za-z0-9_-]{43}`)

// enrol does what the agent of a deployed machine does at its first boot.
func (p *process) enrol(hostname, systemID string) {
	p.t.Helper()
	p.rested()
	p.bring(hostname, systemID)
}

// rested waits until nodes are answered.
func (p *process) rested() {
	p.t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: pki.PinnedConfig(p.RootSHA256(), "127.0.0.1", p.Now)}}
	defer client.CloseIdleConnections()
	servertest.Eventually(p.t, "nodes to be answered", func() bool { // a clock that has leapt makes the deny list look old
		res, err := client.Post(p.AgentURL()+"/internal/v1/nodes/enroll", "application/json", strings.NewReader("{}"))
		if err != nil {
			p.t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode != http.StatusServiceUnavailable
	})
}

// bring enrols the agent of a machine with the token from its deployment.
func (p *process) bring(hostname, systemID string) {
	p.t.Helper()
	m, _ := p.region.Machine(systemID)
	token := string(enrolToken.Find(m.UserData))
	if token == "" {
		p.t.Fatalf("machine %s was deployed without a token", systemID)
	}
	p.EnrollMachine(p.t, token, hostname, systemID).Settle(p.t)
}
