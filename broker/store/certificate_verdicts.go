package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// JudgeCertificate returns codes of what a certificate lacks by a policy, and did not lack when it was
// issued; none: the certificate suffices. A file that cannot be read lacks something.
type JudgeCertificate func(file []byte, p broker.TurnoverPolicy) (lacks []string)

// policyInForce is the policy by which the newest certificates of a site's nodes are judged: that of the
// site's default profile.
type policyInForce struct {
	broker.TurnoverPolicy
	asks  string    // see TurnoverPolicy.Asks
	since time.Time // the last change of the profile or of the site, which may have chosen another
}

// policiesInForce returns the policies of sites (nil: all) by name.
func policiesInForce(ctx context.Context, r sqlkit.Runner, sites []string) (map[string]*policyInForce, error) {
	var w sqlkit.Where
	sqlkit.In(&w, "maas_sites.name", sites)
	out := map[string]*policyInForce{}
	_, err := sqlkit.Collect(ctx, r, func(row sqlkit.Row) (name string, err error) {
		var own, site time.Time
		stored := storedPolicy()
		if err := row.Scan(&name, sqlkit.ScanJSON(&stored), sqlkit.ScanMicros(&own), sqlkit.ScanMicros(&site)); err != nil {
			return name, err
		}
		p := newPolicyInForce(stored)
		if p.since = own; site.After(own) {
			p.since = site
		}
		out[name] = p
		return name, nil
	}, `SELECT maas_sites.name, p.policy, p.updated_at, maas_sites.updated_at
		FROM maas_sites JOIN maas_site_profiles p ON p.id = maas_sites.default_profile_id`+w.String(), w.Args...)
	return out, err
}

func newPolicyInForce(p broker.Policy) *policyInForce {
	t := p.Turnover()
	return &policyInForce{TurnoverPolicy: t, asks: t.Asks()}
}

// valid is how long a certificate is good for.
func (p *policyInForce) valid() time.Duration {
	return time.Duration(p.CertificateValidSeconds) * time.Second
}

// verdict is a row of certificate_verdicts.
type verdict struct {
	certificateID, policy string
	lacks                 []string
	since                 time.Time
}

// into completes a node's newest certificate by the policy in force, as far as the verdict on record
// goes. stale: the verdict is of another certificate or by another policy.
func (v verdict) into(c *broker.LastCertificate, p *policyInForce) (stale bool) {
	c.PolicyStands = p.since.Before(c.IssuedAt)
	if until := c.IssuedAt.Add(p.valid()); until.Before(c.ValidUntil) {
		c.ShortenedAt = p.since
		if c.ValidUntil.Before(p.since) {
			c.ShortenedAt = c.ValidUntil
		}
		c.ValidUntil = until
	}
	if v.certificateID != c.ID || v.policy != p.asks {
		c.Unjudged = true
		return true
	}
	c.Lacks, c.LacksSince = v.lacks, v.since
	return false
}

// judgedBy enters what the certificate lacks by the policy in force. The certificate lacks it since the policy
// asks for it, also if it lacked something before: what a person accepted then was another policy.
func judgedBy(c *broker.LastCertificate, p *policyInForce, lacks []string) verdict {
	now := verdict{certificateID: c.ID, policy: p.asks, lacks: lacks}
	switch {
	case len(lacks) == 0:
	case p.since.Before(c.IssuedAt):
		now.since = c.IssuedAt
	default:
		now.since = p.since
	}
	c.Lacks, c.LacksSince, c.Unjudged = now.lacks, now.since, false
	return now
}

// judgeCertificate completes the newest certificate of one node. Where the verdict on record is stale, the
// certificate itself is read, and the new verdict returned. What the certificate of a node with a tenant lacks is
// not asked.
func judgeCertificate(ctx context.Context, r sqlkit.Runner, judge JudgeCertificate, h *broker.Handout) (anew *verdict, err error) {
	all, err := policiesInForce(ctx, r, []string{h.Node.Site})
	if err != nil {
		return nil, err
	}
	p := all[h.Node.Site]
	if p == nil {
		p = newPolicyInForce(broker.DefaultPolicy())
	}
	var v verdict
	err = r.QueryRowContext(ctx, `SELECT certificate_id, policy, lacks, since FROM certificate_verdicts WHERE node_id = $1`, h.Node.ID).
		Scan(&v.certificateID, &v.policy, sqlkit.ScanJSON(&v.lacks), sqlkit.ScanMicros(&v.since))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	if !v.into(h.Certificate, p) || judge == nil || !h.Vacant() {
		return nil, nil
	}
	c, err := cleanCertificate(ctx, r, h.Certificate.ID)
	if err != nil {
		return nil, err
	}
	v = judgedBy(h.Certificate, p, judge(c.File, p.TurnoverPolicy))
	return &v, nil
}

// verdictBatch is how many verdicts a transaction writes.
const verdictBatch = 50

// judgeStale judges the certificates of free nodes again whose verdict is stale, and records the verdicts. A
// verdict is a function of the certificate and the policy, so it may be recorded at any time by anybody.
// Files are read one after another, outside of transactions.
func (db *DB) judgeStale(ctx context.Context, fleet []judged) error {
	for some := range slices.Chunk(stale(fleet), verdictBatch) {
		if db.judgeFile == nil {
			return nil
		}
		if err := judgeFiles(ctx, db.reader(), db.judgeFile, some); err != nil {
			return err
		}
		if err := db.write(ctx, func(ctx context.Context, t *tx) error { return t.keepVerdicts(ctx, some) }); err != nil {
			return err
		}
	}
	return nil
}

// stale returns the free nodes of a fleet with a certificate that was not judged by the policy in force.
func stale(fleet []judged) (out []*judged) {
	for i, f := range fleet {
		if c := f.Certificate; c != nil && c.Unjudged && f.Vacant() {
			out = append(out, &fleet[i])
		}
	}
	return out
}

// judgeFiles reads and judges certificates, and records nothing.
func judgeFiles(ctx context.Context, r sqlkit.Runner, judge JudgeCertificate, all []*judged) error {
	if judge == nil {
		return nil
	}
	for _, f := range all {
		c, err := cleanCertificate(ctx, r, f.Certificate.ID)
		if err != nil {
			return err
		}
		f.verdict = judgedBy(f.Certificate, f.policy, judge(c.File, f.policy.TurnoverPolicy))
	}
	return nil
}

func (t *tx) keepVerdicts(ctx context.Context, all []*judged) error {
	for _, f := range all {
		if err := t.keepVerdict(ctx, f.Node.ID, f.verdict); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) keepVerdict(ctx context.Context, nodeID string, v verdict) error {
	_, err := t.ExecContext(ctx, `INSERT INTO certificate_verdicts (node_id, certificate_id, policy, lacks, since, judged_at)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (node_id) DO UPDATE SET certificate_id = excluded.certificate_id,
		policy = excluded.policy, lacks = excluded.lacks, since = excluded.since, judged_at = excluded.judged_at`,
		nodeID, v.certificateID, v.policy, listText(v.lacks), sqlkit.Micros(v.since), sqlkit.Micros(t.now))
	return err
}

// policyChanges waits for the placements under way if a change of a policy concerns certificates, and has
// all nodes judged again. Placements that begin later see the new policy.
func (t *tx) policyChanges(ctx context.Context, before, after broker.TurnoverPolicy) error {
	if before.Asks() == after.Asks() && before.CertificateValidSeconds == after.CertificateValidSeconds {
		return nil
	}
	t.hint(HintNode, "")
	return t.shutOut(ctx)
}

// defaultChanges is policyChanges of a site that chooses another default profile.
func (t *tx) defaultChanges(ctx context.Context, before, after broker.Site) error {
	was, err := profile(ctx, t, before.ID, before.DefaultProfileID, "")
	if err != nil {
		return err
	}
	is, err := profile(ctx, t, after.ID, after.DefaultProfileID, "")
	if err != nil {
		return err
	}
	return t.policyChanges(ctx, was.Policy.Turnover(), is.Policy.Turnover())
}
