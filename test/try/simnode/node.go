package simnode

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/hostler/hostler/agent"
	"github.com/hostler/hostler/agent/facts"
	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/inbox"
	"github.com/hostler/hostler/agent/journal"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/fakegpu"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/maassim"
)

const (
	// GPUs is how many GPUs the node has.
	GPUs = 2
	// Memory is the memory of a GPU, as in a SKU.
	Memory = "32MiB"
)

// Options are a node's inputs.
type Options struct {
	Program string // the built agent, of which a child process asks each GPU
	Folder  string // of everything that the node writes
	Box     maassim.Hardware
	// Broker returns the broker's URL for nodes and the digest of its root.
	Broker func(context.Context) (url, caSHA256 string, err error)
}

// BrokerOf is where a node finds the broker of a lab, for Options.
func BrokerOf(l *lab.Lab) func(context.Context) (url, caSHA256 string, err error) {
	return func(ctx context.Context) (url, caSHA256 string, err error) {
		var trust struct {
			CASHA256 string `json:"ca_sha256"`
		}
		err = l.JSON(ctx, &trust, "trust", "show")
		return "https://" + l.AgentAddress(), trust.CASHA256, err
	}
}

// Node is a simulated node.
type Node struct {
	Options
	gpus *fakegpu.Machine

	mu   sync.Mutex
	root string // of the system that was installed last
}

// New makes a node with GPUs and without a system.
func New(o Options) (*Node, error) {
	dir := filepath.Join(o.Folder, "gpus")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	gpus, err := fakegpu.New(dir, fmt.Sprintf("devices %d", GPUs), "memory 32M", "reserved 1M", "scrub_on_free off", "setters anyone")
	if err != nil {
		return nil, err
	}
	return &Node{Options: o, gpus: gpus}, nil
}

// Agent installs a system in a new directory, and serves as the system's agent until ctx ends. It is
// a lab.Agent.
func (n *Node) Agent(ctx context.Context, systemID, token string) (err error) {
	config, err := n.install(ctx, systemID, token)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(n.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Join(err, config.Machine.Close())
	}
	defer func() { err = errors.Join(err, config.Machine.Close(), log.Close()) }()
	config.Log = journal.Plain(log, zap.InfoLevel)
	a, err := agent.New(config)
	if err != nil {
		return err
	}
	return errors.Join(a.Run(ctx), a.Close())
}

// LogFile is where the agent logs.
func (n *Node) LogFile() string { return filepath.Join(n.Folder, "agent.log") }

func (n *Node) install(ctx context.Context, systemID, token string) (agent.Config, error) {
	url, ca, err := n.Broker(ctx)
	if err != nil {
		return agent.Config{}, err
	}
	dir, err := os.MkdirTemp(n.Folder, "system-")
	if err != nil {
		return agent.Config{}, err
	}
	root, tokenFile := filepath.Join(dir, "root"), filepath.Join(dir, "token")
	program := filepath.Join(root, taskcatalog.AgentProgram(Version))
	err = errors.Join(
		files(n.Box, uuid.NewString()).lay(root), copyProgram(n.Program, program), os.WriteFile(tokenFile, []byte(token+"\n"), 0o600),
	)
	if err != nil {
		return agent.Config{}, err
	}
	m, err := machine.Open(root)
	if err != nil {
		return agent.Config{}, err
	}
	n.mu.Lock()
	n.root = root
	n.mu.Unlock()
	helper := gpu.NewHelper("hostler-agent", "gpu", "helper")
	helper.Path, helper.Env = program, n.gpus.Env()
	helper.Deadline, helper.Silence = time.Minute, time.Minute
	survey := func(ctx context.Context) ([]taskcatalog.GPUFacts, []taskcatalog.LibraryFacts, error) {
		s := helper.Survey(ctx, gpu.Vendors...)
		return s.GPUs, s.Libraries, nil
	}
	return agent.Config{
		File: agent.File{
			Broker: url, CASHA256: ca, TokenFile: tokenFile, MAASSystemID: systemID, Key: pki.Ed25519, Allow: inbox.AllowAll,
			StateDir: filepath.Join(dir, "state"), StatusFile: filepath.Join(dir, "status.json"),
		},
		ConfigDir: dir, Version: Version, Hostname: systemID, Machine: m, Systemd: &hosttest.Systemd{}, Now: time.Now, Rand: rand.Reader,
		Handlers: handlers(n.gpus), GPU: helper, Notify: func(string) {},
		Facts: func(ctx context.Context) (taskcatalog.Facts, error) { return facts.Gather(ctx, m, survey) },
	}, nil
}

// Leave leaves a tenant's things on the node, each with the text: in files, and in the memory of
// each GPU.
func (n *Node) Leave(text string, names ...string) error {
	var all []error
	for _, name := range names {
		at := filepath.Join(n.system(), name)
		all = append(all, os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644))
	}
	for i := range GPUs {
		all = append(all, n.gpus.Plant(i, 8<<20, []byte(strings.Repeat(text, 1000))))
	}
	return errors.Join(all...)
}

// Left counts what is left of a text on the node: it reads the files and the memory themselves, and
// asks no agent.
func (n *Node) Left(text string) (inFiles, inMemory int, err error) {
	err = filepath.WalkDir(n.system(), func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(name)
		inFiles += strings.Count(string(raw), text)
		return err
	})
	for i := range GPUs {
		found, e := n.gpus.Count(i, text)
		inMemory, err = inMemory+found, errors.Join(err, e)
	}
	return inFiles, inMemory, err
}

func (n *Node) system() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.root
}
