package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/hostler/hostler/agent/agenttest"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/agent/inbox"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/agent/tasks"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// lab is a machine with its disk, and a broker. Agents come and go.
type lab struct {
	t        *testing.T
	broker   *agenttest.Broker
	config   Config
	handlers map[string]tasks.Handler
	boot     identity.Bootstrap
	clock    atomic.Int64 // offset of this machine's clock
}

// inBubble runs a test in fake time with a lab.
func inBubble(t *testing.T, test func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newLab(t)) })
}

func newLab(t *testing.T) *lab {
	l := &lab{t: t, broker: agenttest.New(t, time.Now), handlers: map[string]tasks.Handler{}}
	root, dir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"proc/sys/kernel/random/boot_id": "5d2f6f3e-0000-4000-8000-000000000001\n",
		"proc/uptime":                    "100.00 200.00\n",
		"proc/cmdline":                   "BOOT_IMAGE=/vmlinuz quiet\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755), os.WriteFile(filepath.Join(root, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	m, err := machine.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	l.boot = l.broker.Bootstrap()
	tokenFile := filepath.Join(dir, "token")
	if err := os.WriteFile(tokenFile, []byte(l.boot.Token.Reveal()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel))
	if testing.Verbose() {
		log = zaptest.NewLogger(t)
	}
	l.config = Config{
		File: File{
			Broker: l.boot.Broker, CASHA256: l.boot.CASHA256, TokenFile: tokenFile, Key: pki.Ed25519, Allow: inbox.AllowAll,
			StateDir: filepath.Join(dir, "state"), StatusFile: filepath.Join(dir, "run", "status.json"),
		},
		Version: "1.2.3-test", Hostname: "node-1", Machine: m, Rand: rand.Reader, Log: log,
		Now: func() time.Time { return time.Now().Add(time.Duration(l.clock.Load())) }, Dial: l.broker.Dial,
		Notify: func(string) {},
		Handlers: func(name string, version int) (tasks.Handler, bool) {
			h, ok := l.handlers[taskcatalog.Type{Name: name, Version: version}.ID()]
			return h, ok
		},
	}
	l.handle("node.heartbeat_check@1", tasks.Handler{Do: func(context.Context, *host.Run) (any, taskcatalog.Report, error) {
		return &taskcatalog.HeartbeatCheckResult{AgentVersion: "1.2.3-test"}, taskcatalog.Report{}, nil
	}})
	l.handle("node.drain@1", tasks.Handler{Do: drain})
	return l
}

func drain(context.Context, *host.Run) (any, taskcatalog.Report, error) {
	return &taskcatalog.DrainResult{Drained: true}, taskcatalog.Report{}, nil
}

func (l *lab) handle(id string, h tasks.Handler) { l.handlers[id] = h }

// process is a single agent process.
type process struct {
	*Agent
	lab     *lab
	stop    context.CancelFunc
	ended   chan struct{}
	err     error
	severed atomic.Bool // its network is cut
}

// start starts an agent on the machine's disk. prepare may change the process before it runs.
func (l *lab) start(prepare ...func(*process)) *process {
	l.t.Helper()
	p := &process{lab: l, ended: make(chan struct{})}
	config := l.config
	dial := config.Dial
	config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if p.severed.Load() {
			return nil, errors.New("this process is dead")
		}
		return dial(ctx, network, addr)
	}
	a, err := New(config)
	if err != nil {
		l.t.Fatal(err)
	}
	p.Agent = a
	for _, f := range prepare {
		f(p)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	p.stop = cancel
	go func() {
		defer close(p.ended)
		p.err = a.Run(ctx)
	}()
	l.t.Cleanup(func() { p.quit() })
	return p
}

// quit stops the agent as systemd would.
func (p *process) quit() {
	p.stop()
	<-p.ended
	_ = p.Close()
}

// kill ends the agent as kill -9 would: from now on the agent reaches neither the broker nor its
// disk. kill returns while the agent's goroutines wind up.
func (p *process) kill() {
	p.severed.Store(true)
	p.lab.broker.GoAway()
	_ = p.Close()
	p.stop()
	p.lab.broker.ComeBack()
}

// nodeID waits until the machine is a member.
func (l *lab) nodeID(p *process) string {
	l.t.Helper()
	l.until("the node is a member", func() bool { return p.state.Member() != nil })
	return p.state.Member().NodeID
}

// until waits, in the bubble's time, for at most two days.
func (l *lab) until(what string, cond func() bool) {
	l.t.Helper()
	for begun := time.Now(); !cond(); {
		waited := time.Since(begun)
		if waited > 48*time.Hour {
			l.t.Fatalf("it is not so that %s", what)
		}
		time.Sleep(max(100*time.Millisecond, waited/100))
	}
}
