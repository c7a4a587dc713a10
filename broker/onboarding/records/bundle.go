package records

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cloudinit"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Bundle implements onboarding.Nodes.
func (n *Nodes) Bundle(ctx context.Context, nodeID string, f onboarding.BundleFacts) (onboarding.Bundle, error) {
	var out onboarding.Bundle
	node, err := n.DB.Node(ctx, nodeID)
	if err != nil {
		return out, err
	}
	root, err := n.root()
	if err != nil {
		return out, err
	}
	arch, _, _ := strings.Cut(f.Policy.Architecture, "/")
	release, withheld, err := n.DB.NewestPackage(ctx, arch)
	if err != nil {
		return out, err
	}
	in := cloudinit.Input{BrokerURL: n.AgentURL, CASHA256: n.Trust.RootSHA256(), RootPEM: root, MAASSystemID: f.SystemID}
	switch {
	case release != nil:
		in.Package = &cloudinit.Package{SHA256: strings.TrimPrefix(release.Digest, "sha256:")}
	case withheld > 0:
		out.Warnings = append(out.Warnings,
			fmt.Sprintf("no agent release for %s is published but for %d that are revoked or below the floor: the image must have hostler-agent installed", arch, withheld))
	default:
		out.Warnings = append(out.Warnings, "no agent release for "+arch+" is published: the image must have hostler-agent installed")
	}
	in.SiteBundle, in.HardwareSync, in.OverwriteSignatures = f.Policy.SiteBootstrapBundleRef, f.Policy.RequireHWSync,
		f.Policy.OverwriteKnownSignatures
	var spared []string
	if f.Policy.InitializeExtraDisks {
		in.Disks, spared = extraDisks(f)
		out.Warnings = append(out.Warnings, spared...)
	}
	if in.RoCE, err = interfaces(f.RoCE); err != nil {
		return out, err
	}
	if in.DeployUser, err = n.deployUser(ctx, nodeID, f.SiteID); err != nil {
		return out, err
	}
	if in.Token, err = n.token(ctx, nodeID, f.Expires); err != nil {
		return out, err
	}
	text, err := cloudinit.Render(in)
	if err != nil {
		return out, err
	}
	bare, err := cloudinit.Render(in.Redacted())
	if err != nil {
		return out, err
	}
	out.UserData, out.Digest, out.Epoch = []byte(text), fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(bare))), node.Epoch
	return out, nil
}

// extraDisks returns the disks to initialize: not the boot disk, and known by a serial unique in
// the machine. spared names the disks left alone, and why.
func extraDisks(f onboarding.BundleFacts) (disks []cloudinit.Disk, spared []string) {
	if f.BootDisk.ID == 0 {
		return nil, []string{"no extra disk is initialized: the boot disk is not known"}
	}
	of := map[string]int{}
	for _, d := range f.Disks {
		of[d.Serial]++
	}
	for _, d := range f.Disks {
		why := ""
		switch {
		case d.ID == f.BootDisk.ID:
			continue
		case d.Serial == f.BootDisk.Serial:
			why = "the disk has the serial number of the boot disk"
		case !cloudinit.SerialForm.MatchString(d.Serial):
			why = "the disk has no serial number by which the machine could find it"
		case of[d.Serial] > 1:
			why = "another disk has the same serial number"
		case d.Size <= 0:
			why = "MAAS does not know its size"
		default:
			disks = append(disks, cloudinit.Disk{Serial: d.Serial, Size: d.Size})
			continue
		}
		spared = append(spared, "disk "+taskcatalog.Clean(d.Name+" "+d.Serial, 100)+" is not initialized: "+why)
	}
	return disks, spared
}

func interfaces(rows []broker.RoCEAssignment) ([]cloudinit.RoCE, error) {
	var all []cloudinit.RoCE
	for _, r := range rows {
		p, err := netip.ParsePrefix(r.IPv4CIDR)
		if err != nil {
			return nil, broker.Errorf(broker.Invalid, "roce_invalid", "cannot write a bootstrap: the RoCE address %q of %s is not valid",
				taskcatalog.Clean(r.IPv4CIDR, 50), r.Interface)
		}
		all = append(all, cloudinit.RoCE{Interface: r.Interface, Address: p})
	}
	return all, nil
}

// deployUser returns the site's deploy user, with a hash of its password if there is one. The salt
// is specific to the node and stays the same for the same bundle.
func (n *Nodes) deployUser(ctx context.Context, nodeID, siteID string) (*cloudinit.DeployUser, error) {
	if siteID == "" {
		return nil, nil
	}
	site, err := n.DB.Site(ctx, siteID)
	if err != nil {
		return nil, err
	}
	if site.DeploySSHPublicKey == "" {
		return nil, nil // the site has no credentials yet
	}
	u := &cloudinit.DeployUser{Name: site.DeployUser, SSHKey: site.DeploySSHPublicKey}
	if site.DeployPasswordSetAt.IsZero() {
		return u, nil
	}
	password, err := maas.DeployPassword(ctx, n.Secrets, site)
	if err != nil || password == "" {
		return u, err
	}
	key, err := n.tokenKey(ctx)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("hostler deploy password\x00" + nodeID))
	salt := strings.NewReplacer("+", ".", "/", ".").Replace(base64.StdEncoding.EncodeToString(mac.Sum(nil)))[:cloudinit.SaltLength]
	u.PasswordHash, err = cloudinit.HashPassword(password, salt)
	return u, err
}

// root returns the certificate with the fingerprint that a machine pins.
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
