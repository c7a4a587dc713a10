package adminapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cloudinit"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// enrollTTL is the default lifetime of an enrolment token.
const enrollTTL = 24 * time.Hour

// The ways to bring up a machine by hand.
const (
	byCloudInit = "cloud-init"
	byCommand   = "command"
)

var (
	siteForm     = lazyregexp.New(`^([a-z0-9][a-z0-9-]{0,62})?$`)
	skuForm      = lazyregexp.New(`^([A-Za-z0-9][A-Za-z0-9._-]{0,62})?$`)
	systemIDForm = lazyregexp.New(`^[A-Za-z0-9_-]{0,64}$`)
)

type createNodeInput struct{ Body api.NodeCreate }

// createNode makes a node's record and the data that its machine needs to enrol. The bootstrap is
// rendered before anything is written, so a fault in the bootstrap leaves no record.
func (a *API) createNode(ctx context.Context, in *createNodeInput) (*api.NodeBootstrap, error) {
	who, c := callerOf(ctx), in.Body
	ctx = withReason(ctx, c.Reason)
	given, ok := c.Hostname, false
	switch c.Hostname, ok = broker.CanonicalHostname(given); {
	case !ok:
		return nil, badNode("hostname %q is not a valid hostname (letters, digits and '-', joined by dots)", given)
	case !siteForm.MatchString(c.Site):
		return nil, badNode("site %q is not a valid site name (a-z, 0-9 and '-')", c.Site)
	case !skuForm.MatchString(c.SKU):
		return nil, badNode("SKU %q is not a valid SKU id (letters, digits, '.', '_' and '-')", c.SKU)
	case !systemIDForm.MatchString(c.MAASSystemID):
		return nil, badNode("MAAS system id %q is not valid", c.MAASSystemID)
	case !who.MaySee(c.Site):
		return nil, siteForbidden(who, c.Site)
	}
	if err := checkLabels(c.Labels); err != nil {
		return nil, err
	}
	if err := broker.NodePlace(c.Place).Check(); err != nil {
		return nil, err
	}
	if err := a.checkSiteName(ctx, c.Site); err != nil {
		return nil, err
	}
	if err := a.checkHostnameScope(ctx, c.Site, c.Hostname); err != nil {
		return nil, err
	}
	if c.Bootstrap == "" {
		c.Bootstrap = byCloudInit
	}
	boot, token, err := a.bootstrap(ctx, c.Bootstrap, c.MAASSystemID, c.TTLSeconds, c.PackageURLs, c.Arch)
	if err != nil {
		return nil, err
	}
	n, err := a.c.DB.CreateNode(ctx, who.actor(), store.NewNode{
		ID: pki.NewNodeID(rand.Reader), Hostname: c.Hostname, Site: c.Site, SKU: c.SKU, Bootstrap: c.Bootstrap,
		MAASSystemID: c.MAASSystemID, Labels: c.Labels, Place: broker.NodePlace(c.Place),
		TokenHash: pki.HashToken(token.Reveal()), TokenExpires: boot.ExpiresAt,
	})
	if err != nil {
		return nil, err
	}
	boot.Node = a.changedNode(ctx, n)
	return boot, nil
}

func badNode(format, value string) error {
	return broker.Errorf(broker.Invalid, "node_invalid", "cannot create node: "+format, taskcatalog.Clean(value, 100))
}

type tokenRequestInput struct {
	NodeInput
	Body api.TokenRequest
}

// issueToken gives a node a new enrolment token, for a machine that must enrol again.
func (a *API) issueToken(ctx context.Context, in *tokenRequestInput) (*api.NodeBootstrap, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	boot, token, err := a.bootstrap(ctx, n.Bootstrap, n.MAASSystemID, in.Body.TTLSeconds, nil, "")
	if err != nil {
		return nil, err
	}
	// Only the reimage's own token enrols its node. Another token would void that token and let in
	// whoever holds the other one.
	switch id, kind, err := a.c.DB.RunOfNode(ctx, n.ID); {
	case err != nil:
		return nil, err
	case kind == turnover.Reimage.Kind():
		return nil,
			a.refusedOf(ctx, "token.issue", n, broker.Errorf(broker.Refused, "node_in_run",
				"cannot issue a token for node %s: run %s reimages the node, and enrols it with its own token (cancel the run to stop this)", n.ID, id))
	}
	if err := a.c.DB.IssueToken(ctx, callerOf(ctx).actor(), n.ID, pki.HashToken(token.Reveal()), boot.ExpiresAt,
		in.Body.Reason); err != nil {
		return nil, err
	}
	boot.Node = a.changedNode(ctx, n)
	return boot, nil
}

// extendToken gives a machine more time with its present token.
func (a *API) extendToken(ctx context.Context, in *tokenRequestInput) (*api.EnrollToken, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	expires := a.expiry(in.Body.TTLSeconds)
	if err := a.c.DB.ExtendToken(ctx, callerOf(ctx).actor(), n.ID, expires, in.Body.Reason); err != nil {
		return nil, err
	}
	out := &api.EnrollToken{NodeID: n.ID, ExpiresAt: expires}
	rows, err := a.c.DB.ListAudit(ctx, store.AuditFilter{Subject: "node/" + n.ID, Action: "token.extend", Newest: true, Limit: 1})
	if err != nil {
		return nil, err
	}
	var after struct{ Extended int }
	if len(rows) == 1 && json.Unmarshal(rows[0].After, &after) == nil {
		out.Extensions = after.Extended
	}
	return out, nil
}

func (a *API) expiry(ttlSeconds int64) time.Time {
	ttl := time.Duration(ttlSeconds) * time.Second
	if ttl == 0 {
		ttl = enrollTTL
	}
	return a.c.Now().Add(ttl).UTC().Truncate(time.Second)
}

// bootstrap makes a token and renders the data that a machine is given with the token.
func (a *API) bootstrap(
	ctx context.Context, how, systemID string, ttlSeconds int64, mirrors []string, arch string,
) (*api.NodeBootstrap, pki.EnrollToken, error) {
	token, err := pki.NewEnrollToken(rand.Reader)
	if err != nil {
		return nil, "", err
	}
	root, err := a.presentedRoot()
	if err != nil {
		return nil, "", err
	}
	in := cloudinit.Input{
		BrokerURL: a.c.AgentURL, CASHA256: a.c.Trust.RootSHA256(), RootPEM: root,
		Token: token, MAASSystemID: systemID,
	}
	out := &api.NodeBootstrap{BrokerURL: in.BrokerURL, CASHA256: in.CASHA256, Token: token.Reveal(), ExpiresAt: a.expiry(ttlSeconds)}
	release, withheld, err := a.c.DB.NewestPackage(ctx, cmp.Or(arch, defaultArch))
	if err != nil {
		return nil, "", err
	}
	switch {
	case release != nil:
		in.Package = &cloudinit.Package{SHA256: strings.TrimPrefix(release.Digest, "sha256:"), Mirrors: mirrors}
	case len(mirrors) > 0:
		return nil, "", broker.Errorf(broker.Refused, "agent_release_missing",
			"cannot use package URLs: no agent release is published%s, so the package's digest cannot be checked (hostler agent-release publish FILE)", withheldNote(withheld))
	default:
		out.Warning = "no agent release is published" + withheldNote(withheld) +
			": the machine must have hostler-agent installed already (or publish one first: hostler agent-release publish FILE)"
	}
	switch how {
	case byCommand:
		out.Command, err = cloudinit.Command(in)
	default:
		out.CloudConfig, err = cloudinit.Render(in)
	}
	return out, token, err
}

// withheldNote mentions the packages that exist but are withheld from all nodes.
func withheldNote(withheld int) string {
	if withheld == 0 {
		return ""
	}
	return fmt.Sprintf(" but for %d that are revoked or below the floor", withheld)
}

// presentedRoot is the root certificate with the fingerprint that a machine pins.
func (a *API) presentedRoot() (string, error) {
	certs, err := pki.ParseCerts(a.c.Trust.RootsPEM())
	if err != nil {
		return "", err
	}
	for _, c := range certs {
		if pki.Fingerprint(c) == a.c.Trust.RootSHA256() {
			return string(pki.MarshalCerts(c)), nil
		}
	}
	return "", broker.Errorf(broker.Unavailable, "internal", "the root that the broker presents is not among its roots")
}
