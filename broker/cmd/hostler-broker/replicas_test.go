package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/secrets/secretstest"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store/storetest"
)

// TestAReplicaTakesOverTheRunOfOneThatIsKilled has two brokers share a PostgreSQL and a Vault. In
// each stage with a call to MAAS the calling broker is killed with SIGKILL, while the other lives.
// The other broker continues a lease later and ends the stage; then the dead broker is started
// again.
func TestAReplicaTakesOverTheRunOfOneThatIsKilled(t *testing.T) {
	t.Parallel()
	d := &duel{gallows: gallows{fatal: map[string]bool{}}, down: make(chan death, 1)}
	url, vault := storetest.PostgresURL(t), secretstest.StartVault(t, false)
	a := newProcess(t, `{"require_hw_sync":true,"hardware_sync_interval":"5m","hardware_sync_health_timeout_seconds":2700,"enable_phase2_roce":false}`, d.door, func(p *process) {
		p.shares(url, vault)
		if out, err := exec.Command("hostler-broker", "ca", "init", "--data-dir", p.data()).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
	b := a.replica()
	d.both = [2]*process{a, b}
	killed := d.onboard()
	if len(killed) < 10 || !d.fatal["deploy_via_maas POST machines deploy, done"] || !d.fatal["create_or_find_in_maas POST machines, done"] {
		t.Errorf("killed at %v", killed)
	}
	for _, p := range d.both {
		if d.deaths[p] == 0 {
			t.Errorf("one of the two never died; killed at %v", killed)
		}
	}
	t.Logf("killed %d times: %d and %d", len(killed), d.deaths[a], d.deaths[b])
}

// after are the stages in which a broker is killed after a change, and not at its first call.
var after = map[string]string{
	"create_or_find_in_maas": "POST machines, done",
	"deploy_via_maas":        "POST machines deploy, done",
}

// death is a killed broker, with the stage of its run.
type death struct {
	*process
	at, stage string
}

// duel is two brokers with one run, whose caller is killed.
type duel struct {
	gallows
	both   [2]*process
	down   chan death
	deaths map[*process]int
	alone  bool // one broker is dead
}

func (d *duel) door(p *process, next http.Handler) http.Handler {
	d.p, d.stages, d.deaths = p, map[string]int{}, map[*process]int{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.strike(r, "")
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		d.strike(r, ", done")
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

// strike kills the broker that makes a call, if a kill is due.
func (d *duel) strike(r *http.Request, when string) {
	if d.run == "" || r.Context().Err() != nil {
		return
	}
	who := d.caller(r.RemoteAddr)
	var o api.Onboarding
	if who == nil || who.peek("/onboardings/"+d.run, &o) != nil {
		panic(http.ErrAbortHandler) // the broker is gone
	}
	call := operation(r) + when
	at := o.CurrentStage + " " + call
	if one, special := after[o.CurrentStage]; special && call != one || d.stages[o.CurrentStage] > 0 || d.alone {
		return
	}
	d.fatal[at], d.alone = true, true
	d.stages[o.CurrentStage]++
	d.deaths[who]++
	who.kill()
	d.down <- death{who, at, o.CurrentStage}
	panic(http.ErrAbortHandler)
}

// onboard takes a machine from its BMC to an active node, and returns the stages in which a broker
// was killed.
func (d *duel) onboard() (killed []string) {
	a, t := d.both[0], d.p.t
	t.Helper()
	m := a.box(1)
	begun := servertest.Must[api.Onboarding](t, a.Broker, http.MethodPost, "/onboardings", api.OnboardingStart{SiteID: "dc1", SKUID: "h100.8gpu", OnboardingMachine: m})
	d.mu.Lock()
	d.run = begun.OnboardingID
	d.mu.Unlock()
	var o api.OnboardingDetail
	var dead death
	enrolled := false
	for late := time.Now().Add(4 * time.Minute); !o.Ended || dead.process != nil; <-time.After(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("the run is %s at %s: %s %s; killed at %v", o.Status, o.CurrentStage, o.Waiting, o.ErrorMessage, killed)
		}
		if dead.process == nil {
			select {
			case dead = <-d.down:
				killed = append(killed, dead.at)
				a.Advance(61 * time.Second) // the lease is over
			default:
			}
		}
		alive := d.both[0]
		if dead.process == alive {
			alive = d.both[1]
		}
		d.mu.Lock() // nobody dies
		if len(d.down) == 0 && alive.peek("/onboardings/"+d.run, &o) == nil && o.CurrentStage == "wait_for_agent_enrollment" && !enrolled {
			alive.enrol(m.Hostname, *o.MAASSystemID)
			enrolled = true
		}
		d.mu.Unlock()
		if strings.HasPrefix(o.Status, "failed") {
			t.Fatalf("the run is %s at %s: %s %s; killed at %v", o.Status, o.CurrentStage, o.ErrorCode, o.ErrorMessage, killed)
		}
		if dead.process != nil && (o.CurrentStage != dead.stage || o.Ended) {
			d.mu.Lock()
			dead.boot() // the other has taken over
			d.alone = false
			d.mu.Unlock()
			dead = death{}
		}
		if o.Waiting != "" {
			a.Advance(5 * time.Second)
		}
	}
	d.mu.Lock()
	d.run = ""
	d.mu.Unlock()
	d.judge(1, m.Hostname, o, killed)
	return killed
}

// shares makes a process use a common database for its records and a Vault for its secrets.
func (p *process) shares(database string, vault *secretstest.Vault) {
	p.t.Helper()
	token, config := filepath.Join(p.dir, "vault.token"), filepath.Join(p.dir, "broker.yaml")
	err := os.WriteFile(token, []byte(secretstest.Root), 0o600)
	if err == nil {
		err = os.WriteFile(config, fmt.Appendf(nil, "db: %q\nsecrets: vault\nvault: {address: %q, mount: %q, prefix: %q, token_file: %q}\n",
			database, vault.URL, secretstest.Mount, secretstest.Prefix, token), 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.args = []string{"--config", config}
}

// replica starts another process with the same database, Vault and keys.
func (p *process) replica() *process {
	p.t.Helper()
	other := &process{t: p.t, dir: p.t.TempDir(), ahead: p.ahead, clock: p.clock, args: p.args, region: p.region, bmc: p.bmc}
	err := os.Mkdir(other.data(), 0o700)
	if err == nil {
		err = exec.Command("cp", "-a", filepath.Join(p.data(), "keys"), other.data()).Run()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(other.data(), "admin.token"), []byte(p.Token), 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(other.kill)
	other.boot()
	return other
}

// caller is the process behind the socket of a call; nil: gone.
func (d *duel) caller(remote string) *process {
	_, port, _ := net.SplitHostPort(remote)
	n, _ := strconv.Atoi(port)
	table, err := os.Open("/proc/net/tcp")
	if err != nil {
		d.p.t.Error(err)
		return nil
	}
	defer func() { _ = table.Close() }()
	for lines := bufio.NewScanner(table); lines.Scan(); {
		part := strings.Fields(lines.Text())
		if len(part) < 10 || !strings.HasSuffix(part[1], fmt.Sprintf(":%04X", n)) {
			continue
		}
		for _, p := range d.both {
			fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.cmd.Process.Pid))
			for _, fd := range fds {
				if to, _ := os.Readlink(fd); to == "socket:["+part[9]+"]" {
					return p
				}
			}
		}
	}
	return nil
}
