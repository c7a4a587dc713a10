package play

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/agent/firstboot"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/qemu"
)

// Broker starts a broker from nothing, and publishes the agent.
func (p *Play) Broker(ctx context.Context) error {
	p.Typed("hostler-broker serve --data-dir …")
	if err := p.Lab.StartBroker(ctx); err != nil {
		return err
	}
	deb, err := p.Package()
	if err != nil {
		return err
	}
	if err := p.Hostler(ctx, 4, "agent-release", "publish", deb); err != nil {
		return err
	}
	return p.Hostler(ctx, 4, "resolver", "push", "resolver-profiles", "--nodes", "all", "--version", "shipped")
}

// Package is the agent's package.
func (p *Play) Package() (string, error) {
	debs, err := filepath.Glob(filepath.Join(p.dist, "hostler-agent_*.deb"))
	if err != nil || len(debs) == 0 {
		return "", fmt.Errorf("cannot find the agent's package in %s (make package)", p.dist)
	}
	slices.Sort(debs)
	return debs[len(debs)-1], nil
}

// Site makes the rack's region a site and sets the given knobs in its default profile.
func (p *Play) Site(ctx context.Context, site string, knobs ...string) error {
	commands, err := p.Rack.Site(p.Lab, site)
	if err != nil {
		return err
	}
	profile := []string{"site", "profile", "update", site, "default", "--set", "hardware_sync_interval=3m"}
	for _, k := range knobs {
		profile = append(profile, "--set", k)
	}
	for _, args := range append(commands, profile) {
		if err := p.Hostler(ctx, 4, args...); err != nil {
			return err
		}
	}
	return p.Hostler(ctx, 20, "site", "probe", site)
}

// Node holds the fields of a node's JSON that the scenes read.
type Node struct {
	ID           string `json:"id"`
	Status       string `json:"status"`
	StatusReason string `json:"status_reason"`
	TurnoverOwed bool   `json:"turnover_owed"`
	Epoch        int64  `json:"epoch"`
	Handout      struct {
		OK      bool `json:"may_be_handed_out"`
		Reasons []struct {
			Code string `json:"code"`
		} `json:"reasons"`
	} `json:"handout"`
}

// Node reads a node.
func (p *Play) Node(ctx context.Context, name string) (n Node, err error) {
	return n, p.Lab.JSON(ctx, &n, "node", "show", name)
}

// Task holds the fields of a task's JSON that the scenes read.
type Task struct {
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Status  string          `json:"status"`
	Verdict string          `json:"verdict"`
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Result  json.RawMessage `json:"result"`
}

// LastTask returns a node's last task of a type.
func (p *Play) LastTask(ctx context.Context, node, taskType string) (t Task, err error) {
	var list struct {
		Items []Task `json:"items"`
	}
	if err := p.Lab.JSON(ctx, &list, "task", "list", "--node", node); err != nil {
		return t, err
	}
	at := slices.IndexFunc(list.Items, func(t Task) bool { return t.Type == taskType })
	if at < 0 {
		return t, fmt.Errorf("node %s never had a task %s", node, taskType)
	}
	return t, p.Lab.JSON(ctx, &t, "task", "show", list.Items[at].ID)
}

// Findings shows the findings of a task.
func (p *Play) Findings(ctx context.Context, taskID string) error {
	text, err := p.Lab.Hostler(ctx, "task", "show", taskID)
	if _, findings, found := strings.Cut(text, "\nFindings\n"); found {
		p.Printed(findings, 20)
	}
	return err
}

// Tenant provisions a tenant's user, with a key that nobody has. More are additional parameters of
// the task.
func (p *Play) Tenant(ctx context.Context, node, allocation, tenant string, more map[string]any) error {
	args, err := p.tenantArgs(node, allocation, tenant, more)
	if err != nil {
		return err
	}
	return p.Hostler(ctx, 8, args...)
}

// TenantRefused is Tenant for a node that may not be handed out.
func (p *Play) TenantRefused(ctx context.Context, node, allocation, tenant string, words ...string) error {
	args, err := p.tenantArgs(node, allocation, tenant, nil)
	if err != nil {
		return err
	}
	return p.Refused(ctx, args, words...)
}

func (p *Play) tenantArgs(node, allocation, tenant string, more map[string]any) ([]string, error) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	params := map[string]any{
		"allocation_id": allocation, "username": tenant, "tenant": tenant,
		"ssh_keys": []string{strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))},
	}
	for name, v := range more {
		params[name] = v
	}
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	file := p.Lab.Path(tenant + ".json")
	return []string{"task", "enqueue", node, "allocation.provision_user", "--params", file, "--wait"}, os.WriteFile(file, text, 0o600)
}

// As runs a shell line in the guest as a user, as a person would type it.
func (p *Play) As(ctx context.Context, user, line string) error {
	_, err := p.InGuest(ctx, "runuser", "-u", user, "--", "sh", "-c", line)
	return err
}

// Deployed counts MAAS's deployments of the machine.
func (p *Play) Deployed() int { return p.Rack.Happened(p.Rack.Box.Serial, "deploy") }

// Token is the enrolment token of the machine's deployment.
func (p *Play) Token(hostname string) (string, error) {
	m, has := p.Rack.Of(hostname)
	if token := lab.EnrollToken(m.UserData); has && token != "" {
		return token, nil
	}
	return "", errors.New("what the machine was deployed with holds no enrolment token")
}

// ByHand boots a machine that nobody deployed, and installs the agent there as an operator would,
// with additional lines of config. The play then uses this machine.
func (p *Play) ByHand(ctx context.Context, image *qemu.Image, machine qemu.Config, config string) (err error) {
	node := machine.Name
	machine.ReachHost = true
	if p.Alone, err = qemu.Boot(ctx, image, machine); err != nil {
		return err
	}
	if err := p.Alone.WaitCloudInit(ctx); err != nil {
		return err
	}
	p.Say("A machine has booted, which nobody deployed. Its operator installs the agent's package, and gives it a token.")
	var made struct {
		Token    string `json:"token"`
		URL      string `json:"broker_url"`
		CASHA256 string `json:"ca_sha256"`
	}
	if err := p.Lab.JSON(ctx, &made, "node", "create", "--hostname", node, "--bootstrap", "command"); err != nil {
		return err
	}
	deb, err := p.Package()
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(deb)
	if err != nil {
		return err
	}
	config = fmt.Sprintf("broker: %s\nca_sha256: %s\ntoken_file: /etc/hostler-agent/enroll.token\n%s", made.URL, made.CASHA256, config)
	for name, content := range map[string][]byte{
		"/root/agent.deb": raw, "/root/config.yaml": []byte(config),
		"/root/enroll.token": []byte(made.Token + "\n"),
	} {
		if err := p.Alone.Put(ctx, name, content, 0o600); err != nil {
			return err
		}
	}
	for _, argv := range [][]string{
		{"touch", firstboot.DisableFile},
		{"mkdir", "-p", "/etc/hostler-agent"},
		{"dpkg", "-i", "/root/agent.deb"},
		{"install", "-m", "0644", "/root/config.yaml", "/etc/hostler-agent/config.yaml"},
		{"install", "-m", "0600", "/root/enroll.token", "/etc/hostler-agent/enroll.token"},
		{"systemctl", "enable", "--now", "hostler-agent"},
	} {
		if _, err := p.InGuest(ctx, argv...); err != nil {
			return err
		}
	}
	return p.Lab.WaitNode(ctx, node, "active")
}
