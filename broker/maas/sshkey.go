package maas

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/broker"
)

type deployKey struct {
	PrivateKey string `json:"private_key"` // PEM
}

// NewDeployKey makes the SSH key of a site's deploy user. It stores the public half in s in
// authorized_keys form, and sets the secret's path for the private half, which is for PutDeployKey.
// The path is specific to this key: of two keys that are made at once, neither is lost before the
// site's record decides between them.
func NewDeployKey(rand io.Reader, s *broker.Site) (private []byte, err error) {
	pub, key, err := ed25519.GenerateKey(rand)
	if err != nil {
		return nil, err
	}
	sshPub, err := ssh.NewPublicKey(pub)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "hostler@"+s.Name)
	if err != nil {
		return nil, err
	}
	s.DeploySSHPublicKey = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(sshPub))) + " hostler@" + s.Name
	s.DeploySSHKeyPath += fmt.Sprintf("-%.8x", sha256.Sum256(pub))
	return pem.EncodeToMemory(block), nil
}

// PutDeployKey stores the private half.
func PutDeployKey(ctx context.Context, keeper Keeper, s broker.Site, private []byte) error {
	return put(ctx, keeper, s.DeploySSHKeyPath, deployKey{string(private)})
}

// DeployKey reads the private half. Codes: site_credentials_missing, secret_unreadable, and the
// keeper's.
func DeployKey(ctx context.Context, keeper Keeper, s broker.Site) (ssh.Signer, error) {
	v, err := read[deployKey](ctx, keeper, s, s.DeploySSHKeyPath, "deploy user's SSH key")
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey([]byte(v.PrivateKey))
	if err != nil {
		return nil, broker.Errorf(broker.Refused, "secret_unreadable", "cannot read the deploy user's SSH key of site %s: not an SSH key",
			s.Name)
	}
	return signer, nil
}
