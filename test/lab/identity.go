package lab

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/wire"
	"github.com/hostler/hostler/test/qemu"
)

// Identity is a copy of an agent's key and certificate for the broker. Anybody with root on the
// node could have taken it.
type Identity struct {
	NodeID string
	member *identity.Member
}

// TakeIdentity copies the agent's identity from a guest to dir.
func TakeIdentity(ctx context.Context, g *qemu.Guest, dir string) (*Identity, error) {
	const from = "/var/lib/hostler-agent"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	names, err := g.Run(ctx, "ls", from)
	if err != nil {
		return nil, err
	}
	for _, name := range strings.Fields(names.Stdout) {
		if name != "identity.json" && !strings.HasSuffix(name, ".key") {
			continue
		}
		content, err := g.Run(ctx, "cat", path.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte(content.Stdout), 0o600)
		}
		if err != nil {
			return nil, err
		}
	}
	state, err := identity.Open(dir, time.Now)
	if err != nil {
		return nil, err
	}
	defer func() { _ = state.Close() }()
	if err := state.Lock(); err != nil {
		return nil, err
	}
	m := state.Member()
	if m == nil {
		return nil, errors.New("there is no identity in the guest's " + from)
	}
	return &Identity{NodeID: m.NodeID, member: m}, nil
}

// Knock asks the broker for the node's tasks, as the agent does, and returns the code of the
// refusal. A request that is not refused is an error.
func (i *Identity) Knock(ctx context.Context, l *Lab) (code string, err error) {
	config := pki.PinnedConfig(i.member.CASHA256, "127.0.0.1", time.Now)
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &i.member.Cert, nil }
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+l.AgentAddress()+"/internal/v1/nodes/"+i.NodeID+"/tasks/wait",
		nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", err
	}
	var p wire.Problem
	if err := json.Unmarshal(body, &p); err != nil || resp.StatusCode != http.StatusForbidden {
		return "", fmt.Errorf("the copied identity of node %s is not refused: status %d: %s", i.NodeID, resp.StatusCode, body)
	}
	return string(p.Code), nil
}
