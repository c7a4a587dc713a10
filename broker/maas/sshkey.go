package maas

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"io"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/broker"
)

type deployKey struct {
	PrivateKey string `json:"private_key"` // PEM
}

// NewDeployKey makes the SSH key of a site's deploy user: its public half as
// authorized_keys has it, and its private half for PutDeployKey.
func NewDeployKey(rand io.Reader, s broker.Site) (public string, private []byte, err error) {
	pub, key, err := ed25519.GenerateKey(rand)
	if err != nil {
		return "", nil, err
	}
	sshPub, err := ssh.NewPublicKey(pub)
	if err != nil {
		return "", nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "hostler@"+s.Name)
	if err != nil {
		return "", nil, err
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(sshPub))) + " hostler@" + s.Name
	return line, pem.EncodeToMemory(block), nil
}

// PutDeployKey keeps the private half.
func PutDeployKey(ctx context.Context, keeper Keeper, s broker.Site, private []byte) error {
	return put(ctx, keeper, s.DeploySSHKeyPath, deployKey{string(private)})
}

// DeployKey reads it. Codes: site_credentials_missing, secret_unreadable, and
// those of the keeper.
func DeployKey(ctx context.Context, keeper Keeper, s broker.Site) (ssh.Signer, error) {
	v, err := read[deployKey](ctx, keeper, s, s.DeploySSHKeyPath, "deploy user's SSH key")
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey([]byte(v.PrivateKey))
	if err != nil {
		return nil, broker.Errorf(broker.Refused, "secret_unreadable", "cannot read the deploy user's SSH key of site %s: it is none", s.Name)
	}
	return signer, nil
}
