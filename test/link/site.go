package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hostler/hostler/test/lab"
)

// The two ends of the link, and the node's users.
const (
	brokerAddress = "10.77.0.1"
	nodeAddress   = "10.77.0.2"
	brokerEnd     = "broker0" // in the network namespace broker
	nodeEnd       = "node0"   // in the system's network namespace
	node          = "gpu-01"
	tenant        = "alice"
	agentConfig   = "/etc/hostler-agent"
	programs      = "/opt/hostler" // where they are
)

// site is a broker, and the node with a tenant, who may come by either way.
type site struct {
	*lab.Lab
	key string // the tenant's, for ssh
}

func newSite(ctx context.Context) (*site, error) {
	l, err := lab.New(programs, brokerAddress)
	if err != nil {
		return nil, err
	}
	s := &site{Lab: l, key: l.Path("key")}
	for _, do := range []func(context.Context) error{s.broker, s.node, s.tenant} {
		if err := do(ctx); err != nil {
			return nil, errors.Join(err, fmt.Errorf("the broker said:\n%s", l.BrokerLog()), l.Close())
		}
	}
	return s, nil
}

func (s *site) broker(ctx context.Context) error {
	return s.StartBroker(ctx, "--agent-listen", brokerAddress+":7441", "--relay-listen", brokerAddress+":7442")
}

func (s *site) node(ctx context.Context) error {
	var made struct {
		Token    string `json:"token"`
		URL      string `json:"broker_url"`
		CASHA256 string `json:"ca_sha256"`
	}
	if err := s.JSON(ctx, &made, "node", "create", "--hostname", node, "--bootstrap", "command"); err != nil {
		return err
	}
	token := filepath.Join(agentConfig, "enroll.token")
	config := fmt.Sprintf("broker: %s\nca_sha256: %s\ntoken_file: %s\n", made.URL, made.CASHA256, token)
	if err := errors.Join(
		os.MkdirAll(agentConfig, 0o755), os.WriteFile(token, []byte(made.Token+"\n"), 0o600),
		os.WriteFile(filepath.Join(agentConfig, "config.yaml"), []byte(config), 0o644),
	); err != nil {
		return err
	}
	if _, err := run(ctx, "systemctl", "enable", "--now", "hostler-agent"); err != nil {
		return err
	}
	return s.WaitNode(ctx, node, "active")
}

func (s *site) tenant(ctx context.Context) error {
	if _, err := run(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.key); err != nil {
		return err
	}
	public, err := os.ReadFile(s.key + ".pub")
	if err != nil {
		return err
	}
	params, err := json.Marshal(map[string]any{
		"allocation_id": "a-1", "username": tenant, "tenant": tenant, "ssh_keys": []string{strings.TrimSpace(string(public))},
	})
	if err != nil {
		return err
	}
	file := s.Path("tenant.json")
	if err := os.WriteFile(file, params, 0o600); err != nil {
		return err
	}
	_, err = s.Hostler(ctx, "task", "enqueue", node, "allocation.provision_user", "--params", file, "--wait", "--yes")
	return err
}

// clients are the two ways to a terminal on the node; each runs a shell line there.
func (s *site) clients(line string) pair[[]string] {
	return pair[[]string]{
		SSH: []string{
			"ssh", "-F", "none", "-i", s.key, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=accept-new",
			"-o", "UserKnownHostsFile=" + s.Path("known_hosts"), "-tt", tenant + "@" + nodeAddress, line,
		},
		Hostler: []string{
			filepath.Join(programs, "hostler"), "--config", filepath.Join(s.DataDir(), "client.yaml"),
			"terminal", node, "--command", "bash", "-c", line,
		},
	}
}

// netem makes the link delay and lose packets at either end, or stops doing so.
func netem(ctx context.Context, bad bool) error {
	what := []string{"root"}
	verb := "del"
	if bad {
		verb, what = "add", []string{"root", "netem", "delay", "100ms", "loss", "5%"}
	}
	for dev, in := range ends {
		if _, err := run(ctx, append(append(in, "tc", "qdisc", verb, "dev", dev), what...)...); err != nil {
			return err
		}
	}
	return nil
}

// ends are the link's, and how to come to where they are: this program is the broker's side.
var ends = map[string][]string{brokerEnd: nil, nodeEnd: {"nsenter", "--net=/proc/1/ns/net"}}

// run runs a program of the guest's.
func run(ctx context.Context, argv ...string) (string, error) {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
