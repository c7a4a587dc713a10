package rotation

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/inbox"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// kills is how often the agent is killed in the middle; most of the time goes by
// until a lease runs out.
var kills = flag.Int("kills", 2, "how often the agent is killed")

// agentOf names the variable with the directory of this process's machine, if the process is an
// agent.
const agentOf = "HOSTLER_TEST_ROTATION"

func TestMain(m *testing.M) {
	if dir := os.Getenv(agentOf); dir != "" {
		if err := runAgent(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runAgent is hostler-agent on a machine that is a directory. It has no code for the tasks that
// would change the machine that runs the tests.
func runAgent(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	m, err := machine.Open(filepath.Join(dir, "root"))
	if err != nil {
		return err
	}
	file, err := agent.ParseFile(must(os.ReadFile(filepath.Join(dir, "config.yaml"))))
	if err != nil {
		return err
	}
	log, err := zap.NewDevelopment()
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Config{
		File: file, Version: "test", Hostname: "node-1", Machine: m, Now: time.Now, Rand: rand.Reader, Log: log,
		Notify: func(string) {},
		Handlers: func(name string, version int) (tasks.Handler, bool) {
			switch name {
			case "node.rotate_identity":
				return tasks.Lookup(name, version)
			case "node.validate_clean":
				return tasks.Handler{Do: baseline}, true
			case "node.heartbeat_check":
				return tasks.Handler{Do: heartbeat}, true
			}
			return tasks.Handler{}, false
		},
	})
	if err != nil {
		return err
	}
	return errors.Join(a.Run(ctx), a.Close())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func baseline(context.Context, *host.Run) (any, taskcatalog.Report, error) {
	b := taskcatalog.Baseline{TakenAt: time.Now().UTC(), Processes: []string{"/usr/sbin/sshd"}}
	digest, err := b.Digest()
	return &taskcatalog.ValidateCleanResult{BaselineDigest: digest, Baseline: &b}, taskcatalog.Report{}, err
}

func heartbeat(context.Context, *host.Run) (any, taskcatalog.Report, error) {
	return &taskcatalog.HeartbeatCheckResult{AgentVersion: "test", Now: time.Now().UTC()}, taskcatalog.Report{}, nil
}

// rig is a broker, a machine, and the machine's running agent.
type rig struct {
	t      *testing.T
	broker *servertest.Broker
	nodeID string
	dir    string
	child  *exec.Cmd
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, broker: servertest.Start(t), dir: t.TempDir()}
	boot := servertest.Must[api.NodeBootstrap](t, r.broker, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "node-1", Bootstrap: "command"})
	r.nodeID = boot.Node.ID
	for name, text := range map[string]string{
		"root/proc/sys/kernel/random/boot_id": "5d2f6f3e-0000-4000-8000-000000000001\n",
		"root/proc/uptime":                    "100.00 200.00\n",
		"root/proc/cmdline":                   "quiet\n",
		"token":                               boot.Token + "\n",
		"config.yaml": fmt.Sprintf("broker: %s\nca_sha256: %s\ntoken_file: %s\nallow: %s\nstate_dir: %s\nstatus_file: %s\n",
			r.broker.AgentURL(), r.broker.RootSHA256(), filepath.Join(r.dir, "token"), inbox.AllowAll, filepath.Join(r.dir, "state"), filepath.Join(r.dir, "status.json")),
	} {
		path := filepath.Join(r.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	t.Cleanup(r.kill)
	servertest.Eventually(t, "the node is active", func() bool { return r.node().Status == "active" })
	return r
}

func (r *rig) start() {
	r.t.Helper()
	r.child = exec.CommandContext(context.WithoutCancel(r.t.Context()), os.Args[0])
	r.child.Env = append(os.Environ(), agentOf+"="+r.dir)
	log, err := os.OpenFile(filepath.Join(r.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	r.child.Stdout, r.child.Stderr = log, log
	if err := r.child.Start(); err != nil {
		r.t.Fatal(err)
	}
	_ = log.Close()
}

// kill ends the agent between any two instructions.
func (r *rig) kill() {
	_ = r.child.Process.Kill()
	_ = r.child.Wait()
	if r.t.Failed() {
		log, _ := os.ReadFile(filepath.Join(r.dir, "log"))
		r.t.Logf("the agent's log:\n%s", log[max(0, len(log)-8000):])
	}
}

func (r *rig) node() api.Node {
	r.t.Helper()
	return servertest.Must[api.Node](r.t, r.broker, http.MethodGet, "/nodes/"+r.nodeID, nil)
}

func (r *rig) enqueue(typ string) api.Task {
	r.t.Helper()
	return servertest.Must[api.Task](r.t, r.broker, http.MethodPost, "/nodes/"+r.nodeID+"/tasks", api.TaskCreate{Type: typ, Params: json.RawMessage(`{}`)})
}

// ends waits for a task: a lease that a crash has left takes a minute to run out.
func (r *rig) ends(id string) api.Task {
	r.t.Helper()
	var k api.Task
	for range 10 {
		for deadline := time.Now().Add(9 * time.Second); time.Now().Before(deadline); {
			if k = servertest.Must[api.Task](r.t, r.broker, http.MethodGet, "/tasks/"+id+"?wait=5", nil); k.Ended {
				return k
			}
		}
	}
	r.t.Fatalf("task %s is %s", id, k.Status)
	return k
}

// works checks that the node runs a task now, is in service, and is not taken for two agents.
func (r *rig) works() {
	r.t.Helper()
	if k := r.ends(r.enqueue("node.heartbeat_check").ID); k.Status != "succeeded" {
		r.t.Fatalf("the node does not work: %s %s", k.Status, k.Message)
	}
	if n := r.node(); n.Status != "active" {
		r.t.Fatalf("the node is %s (%s)", n.Status, n.StatusReason)
	}
}

// identity is an agent's identity: the files of its state directory.
type identity struct {
	Certificate string `json:"certificate"`
	KeyFile     string `json:"key"`
	key         []byte
}

func (r *rig) identity() identity {
	r.t.Helper()
	var i identity
	raw, err := os.ReadFile(filepath.Join(r.dir, "state", "identity.json"))
	if err == nil {
		err = json.Unmarshal(raw, &i)
	}
	if err == nil {
		i.key, err = os.ReadFile(filepath.Join(r.dir, "state", i.KeyFile))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return i
}

// as makes one request as the node with this identity, and returns the answer's code.
func (r *rig) as(i identity, method, path string, body any) string {
	r.t.Helper()
	cert, err := pki.ParseCerts([]byte(i.Certificate))
	if err != nil {
		r.t.Fatal(err)
	}
	key, err := pki.ParseKey(i.key)
	if err != nil {
		r.t.Fatal(err)
	}
	return stolen(r.t, r.broker, cert, key, method, "/internal/v1/nodes/"+r.nodeID+path, body)
}

func TestARealAgentChangesItsKey(t *testing.T) {
	r := newRig(t)
	r.works()
	before := r.identity() // a thief's copy
	if code := r.as(before, http.MethodGet, "/tasks/wait?lanes=nothing", nil); code != "bad_lanes" {
		t.Fatalf("the copy is no good before: %s", code)
	}
	k := r.ends(r.enqueue("node.rotate_identity").ID)
	if k.Status != "succeeded" || !k.Evidence {
		t.Fatalf("%s %s %s", k.Status, k.Code, k.Message)
	}
	began := time.Now()
	for code := ""; code != "certificate_denied"; code = r.as(before, http.MethodGet, "/tasks/wait?lanes=nothing", nil) {
		if time.Since(began) > 2*time.Second {
			t.Fatalf("two seconds later the old certificate is answered %s", code)
		}
	}
	after := r.identity()
	var said taskcatalog.RotateIdentityResult
	if err := json.Unmarshal(k.Result, &said); err != nil {
		t.Fatal(err)
	}
	certs, err := pki.ParseCerts([]byte(after.Certificate))
	if err != nil || pki.Serial(certs[0]) != said.Serial {
		t.Errorf("it says %s, and shows another (%v)", said.Serial, err)
	}
	evidence := r.broker.Ask(t, r.broker.Token, http.MethodGet, "/tasks/"+k.ID+"/evidence", nil)
	var stored struct {
		Envelope json.RawMessage `json:"envelope"`
	}
	if err := json.Unmarshal(evidence.Body, &stored); err == nil && len(stored.Envelope) > 0 {
		if _, err := pki.VerifyEvidence(stored.Envelope, certs[0].PublicKey); err != nil {
			t.Errorf("its evidence is not by the new key: %v", err)
		}
	} else {
		t.Errorf("no evidence: %d %s", evidence.Status, evidence.Body)
	}
	if keys, _ := filepath.Glob(filepath.Join(r.dir, "state", "*.key")); len(keys) != 1 || strings.HasSuffix(keys[0], before.KeyFile) {
		t.Errorf("key files %v", keys)
	}
	r.works()
	// The copy renews: now two parties have used that key.
	if code := r.as(before, http.MethodPost, "/renew", renewal(t, before)); code != "identity_conflict" {
		t.Errorf("a renewal with the old key is answered %s", code)
	}
	if n := r.node(); n.Status != "quarantined" || !strings.Contains(n.StatusReason, "identity_conflict") {
		t.Errorf("the node is %s (%s)", n.Status, n.StatusReason)
	}
}

func TestTwoRealAgentsOfOneIdentityAreSeen(t *testing.T) {
	r := newRig(t)
	r.works()
	r.kill()
	clone := t.TempDir() // the disk, copied
	if err := os.CopyFS(clone, os.DirFS(r.dir)); err != nil {
		t.Fatal(err)
	}
	keys, _ := filepath.Glob(filepath.Join(clone, "state", "*.key"))
	for _, key := range append(keys, filepath.Join(clone, "token")) {
		if err := os.Chmod(key, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := os.ReadFile(filepath.Join(clone, "config.yaml"))
	if err == nil {
		err = os.WriteFile(filepath.Join(clone, "config.yaml"), []byte(strings.ReplaceAll(string(config), r.dir, clone)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.start()
	other := &rig{t: t, broker: r.broker, nodeID: r.nodeID, dir: clone}
	other.start()
	t.Cleanup(other.kill)
	// Tasks end polls, so that both agents poll again sooner than after fifty seconds.
	for deadline := time.Now().Add(90 * time.Second); ; {
		if n := r.node(); n.Status == "quarantined" {
			if !strings.Contains(n.StatusReason, "two agents poll") {
				t.Errorf("the reason is %s", n.StatusReason)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("two agents poll, and the node is %s", r.node().Status)
		}
		r.ends(r.enqueue("node.heartbeat_check").ID)
	}
}

// After kill -9 at any moment, again and again, the node has one key and is never taken for two
// agents.
func TestKilledAtAnyMomentTheNodeKeepsOneIdentity(t *testing.T) {
	r := newRig(t)
	r.works()
	rotated := 0
	for range *kills {
		before := r.identity()
		id := r.enqueue("node.rotate_identity").ID
		// The kill is spread over the duration of a rotation.
		after, err := rand.Int(rand.Reader, big.NewInt(int64(80*time.Millisecond)))
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(after.Int64())) // the random moment of the kill
		r.kill()
		r.start()
		k := r.ends(id)
		r.works()
		changed := r.identity().KeyFile != before.KeyFile
		if changed != (k.Status == "succeeded") {
			t.Fatalf("the task ended %s (%s), and the key changed: %v", k.Status, k.Message, changed)
		}
		if changed {
			rotated++
		}
		if keys, _ := filepath.Glob(filepath.Join(r.dir, "state", "*.key")); len(keys) != 1 {
			t.Fatalf("key files %v", keys)
		}
	}
	t.Logf("%d of %d came to another key", rotated, *kills)
	if k := r.ends(r.enqueue("node.rotate_identity").ID); k.Status != "succeeded" {
		t.Errorf("after it all: %s %s", k.Status, k.Message)
	}
	r.works()
}
