package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/qemu"
)

// tenant is a project with one member, who has a token and an SSH key.
type tenant struct {
	*play.Play
	name, token, keyID string
	key                ssh.Signer
	holds              allocation
}

// allocation holds the fields of an allocation's JSON that the scenes read.
type allocation struct {
	ID           string   `json:"id"`
	Status       string   `json:"status"`
	Certificates []string `json:"certificate_ids"`
	Logins       []struct {
		Hostname string `json:"hostname"`
		Username string `json:"username"`
	} `json:"logins"`
}

// newTenant makes the organisation, its project, a quota of one node, and the member.
func newTenant(ctx context.Context, p *play.Play, name string) (*tenant, error) {
	t := &tenant{Play: p, name: name}
	project := name + "/lab"
	for _, args := range [][]string{
		{"org", "create", name},
		{"project", "create", "lab", "--org", name},
		{"quota", "set", project, sku, "--nodes", "1", "--gpus", fmt.Sprint(gpus)},
	} {
		if err := p.Hostler(ctx, 2, args...); err != nil {
			return nil, err
		}
	}
	token := []string{"token", "create", "--name", "of-" + name, "--role", "project_member", "--project", project, "--reason", "a member"}
	p.Typed(play.Typed(token) + " > " + name + ".token")
	secret, err := p.Lab.Hostler(ctx, token...)
	if err != nil {
		return nil, err
	}
	t.token = strings.TrimSpace(secret)
	return t, t.addKey(ctx, project)
}

// addKey gives the member a key of its own; the member adds it by its own token.
func (t *tenant) addKey(ctx context.Context, project string) (err error) {
	var members struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
	}
	if err := t.Lab.JSON(ctx, &members, "member", "list", "--project", project); err != nil {
		return err
	}
	if len(members.Items) != 1 {
		return fmt.Errorf("project %s has %d members", project, len(members.Items))
	}
	if t.key, err = qemu.NewOperator(); err != nil {
		return err
	}
	file := t.Lab.Path(t.name + ".pub")
	if err := os.WriteFile(file, ssh.MarshalAuthorizedKey(t.key.PublicKey()), 0o600); err != nil {
		return err
	}
	var added struct {
		ID string `json:"id"`
	}
	err = t.asks(ctx, &added, "key", "add", members.Items[0].ID, file)
	t.keyID = added.ID
	return err
}

// typed shows a command, and whose it is.
func (t *tenant) typed(args []string) { t.Typed(play.Typed(args) + "   # " + t.name) }

// asks types a command of the tenant's and decodes its answer.
func (t *tenant) asks(ctx context.Context, out any, args ...string) error {
	t.typed(args)
	text, err := t.Lab.HostlerAs(ctx, t.token, nil, append(args, "-o", "json")...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), out)
}

// hostler types a command of the tenant's, draws its progress, and shows its output.
func (t *tenant) hostler(ctx context.Context, limit int, args ...string) error {
	t.typed(args)
	w, done := t.Drawing(40)
	text, err := t.Lab.HostlerLive(ctx, t.token, w, args...)
	done()
	t.Printed(text, limit)
	return err
}

// refused types a command of the tenant's that must be refused with code.
func (t *tenant) refused(ctx context.Context, code string, args ...string) error {
	t.typed(args)
	_, err := t.Lab.HostlerAs(ctx, t.token, nil, args...)
	exit, is := errors.AsType[*lab.ExitError](err)
	if !is || !strings.Contains(exit.Stderr, code) {
		return fmt.Errorf("it was not refused with %s: %w", code, err)
	}
	t.Printed(strings.TrimSpace(exit.Stderr), 4)
	return nil
}

// request is the command that asks for a node.
func (t *tenant) request() []string {
	return []string{"allocation", "create", "--sku", sku, "--nodes", "1", "--key", t.keyID}
}

// moveIn asks for a node, waits for it and logs in.
func (t *tenant) moveIn(ctx context.Context) error {
	if err := t.hostler(ctx, 20, append(t.request(), "--wait")...); err != nil {
		return err
	}
	var list struct {
		Items []allocation `json:"items"`
	}
	if err := t.asks(ctx, &list, "allocation", "list", "--status", "active"); err != nil {
		return err
	}
	if len(list.Items) != 1 || len(list.Items[0].Logins) != 1 || list.Items[0].Logins[0].Hostname != node {
		return fmt.Errorf("%s has %+v", t.name, list.Items)
	}
	t.holds = list.Items[0]
	_, err := t.does(ctx, "id -un; uname -n")
	return err
}

// ssh runs a line in a session of the tenant's own, from outside the machine.
func (t *tenant) ssh(ctx context.Context, line string) (said string, err error) {
	client, err := t.Guest().LogIn(ctx, broker.AllocationAccount, t.key)
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close() }()
	session, err := client.NewSession()
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	session.Stdout = &out
	err = session.Run(line)
	return strings.TrimSpace(out.String()), err
}

// does shows a line that the tenant types in a session, and its output.
func (t *tenant) does(ctx context.Context, line string) (string, error) {
	t.Typed(fmt.Sprintf("ssh %s@%s '%s'   # %s", broker.AllocationAccount, node, line, t.name))
	said, err := t.ssh(ctx, line)
	if said != "" {
		t.Printed(said, 6)
	}
	if err != nil {
		return said, fmt.Errorf("ssh, as %s: %s: %w", t.name, line, err)
	}
	return said, nil
}

// keptOut checks that sshd does not accept the tenant's key.
func (t *tenant) keptOut(ctx context.Context) error {
	switch _, err := t.ssh(ctx, "true"); {
	case err == nil:
		return fmt.Errorf("the key of %s lets in", t.name)
	case !strings.Contains(err.Error(), "unable to authenticate"):
		return err
	}
	t.Say("sshd does not accept the key of %s.", t.name)
	return nil
}

// moveOut releases the allocation, and returns its certificate.
func (t *tenant) moveOut(ctx context.Context) (certificate string, err error) {
	if err := t.hostler(ctx, 20, "allocation", "release", t.holds.ID, "--yes", "--wait", "--timeout", "15m"); err != nil {
		if look, has := t.LastTask(ctx, node, "node.validate_clean"); has == nil {
			err = errors.Join(err, t.Findings(ctx, look.ID)) // what the cleaning has left
		}
		return "", err
	}
	if err := t.asks(ctx, &t.holds, "allocation", "show", t.holds.ID); err != nil {
		return "", err
	}
	if t.holds.Status != "released" || len(t.holds.Certificates) != 1 {
		return "", fmt.Errorf("the allocation of %s is %+v", t.name, t.holds)
	}
	return t.holds.Certificates[0], t.keptOut(ctx)
}

// receipt downloads the tenant's receipt of its certificate, and verifies it without the broker.
func (t *tenant) receipt(ctx context.Context, certificate string) (file string, err error) {
	trust, err := t.TrustFile(ctx)
	if err != nil {
		return "", err
	}
	file = t.Lab.Path(certificate + ".receipt.json")
	if err := t.hostler(ctx, 3, "allocation", "certificate", t.holds.ID, certificate, "--out", file); err != nil {
		return "", err
	}
	args := []string{"certificate", "verify", file, "--trust", trust}
	t.typed(args)
	text, err := t.Lab.HostlerOffline(ctx, args...) // its status is 0 only if the policy is met
	t.Printed(text, 30)
	if err == nil && !strings.Contains(text, t.holds.ID) {
		err = fmt.Errorf("the receipt does not name allocation %s", t.holds.ID)
	}
	return file, err
}
