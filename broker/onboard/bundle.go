package onboard

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cloudinit"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
)

// Bundle implements maas.Nodes.
func (n *Nodes) Bundle(ctx context.Context, nodeID string, f maas.BundleFacts) (maas.Bundle, error) {
	var out maas.Bundle
	node, err := n.DB.Node(ctx, nodeID)
	if err != nil {
		return out, err
	}
	root, err := n.root()
	if err != nil {
		return out, err
	}
	arch, _, _ := strings.Cut(f.Policy.Architecture, "/")
	release, err := n.release(ctx, arch)
	if err != nil {
		return out, err
	}
	in := cloudinit.Input{BrokerURL: n.AgentURL, CASHA256: n.Trust.RootSHA256(), RootPEM: root, MAASSystemID: f.SystemID}
	if release == nil {
		out.Warnings = append(out.Warnings, "no agent release for "+arch+" is published: the image must have hostler-agent installed")
	} else {
		in.Package = &cloudinit.Package{SHA256: strings.TrimPrefix(release.Digest, "sha256:")}
	}
	if in.Token, err = n.token(ctx, nodeID, f.Expires); err != nil {
		return out, err
	}
	text, err := cloudinit.Render(in)
	if err != nil {
		return out, err
	}
	bare := strings.ReplaceAll(text, in.Token.Reveal(), "")
	out.UserData, out.Digest, out.Epoch = []byte(text), fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(bare))), node.Epoch
	return out, nil
}

// root is the certificate with the fingerprint that a machine pins.
func (n *Nodes) root() (string, error) {
	certs, err := pki.ParseCerts(n.Trust.RootsPEM())
	if err != nil {
		return "", err
	}
	for _, c := range certs {
		if pki.Fingerprint(c) == n.Trust.RootSHA256() {
			return string(pki.MarshalCerts(c)), nil
		}
	}
	return "", broker.Errorf(broker.Unavailable, "internal", "the root that the broker presents is not among its roots")
}

// release is the newest agent package for an architecture; nil: there is none.
func (n *Nodes) release(ctx context.Context, arch string) (*store.Package, error) {
	all, err := n.DB.Packages(ctx)
	if err != nil {
		return nil, err
	}
	var newest *store.Package
	for i, p := range all {
		if strings.HasSuffix(p.Name, "_"+arch+".deb") && (newest == nil || p.PublishedAt.After(newest.PublishedAt)) {
			newest = &all[i]
		}
	}
	return newest, nil
}
