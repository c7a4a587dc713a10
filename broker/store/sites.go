package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

const siteColumns = `id, name, region_code, status, api_base_url, ca_cert, pxe_iface, pxe_vlan_vid, node_pxe_iface, distro_series, architecture,
	upstream_dns_servers, deploy_user, deploy_ssh_iface, deploy_ssh_public_key, commissioning_scripts, default_profile_id,
	COALESCE((SELECT p.name FROM maas_site_profiles p WHERE p.id = default_profile_id), ''),
	api_token_vault_path, default_power_creds_vault_path, deploy_password_vault_path, deploy_ssh_key_vault_path,
	api_token_set_at, default_power_creds_set_at, deploy_password_set_at, created_at, updated_at, issuer_organisation, issuer_contact, issuer_trust_url`

func scanSite(row sqlkit.Row) (s broker.Site, err error) {
	err = row.Scan(&s.ID, &s.Name, &s.RegionCode, &s.Status, &s.APIBaseURL, &s.CACert, &s.PXEIface, &s.PXEVLANVID, &s.NodePXEIface,
		&s.DistroSeries, &s.Architecture,
		sqlkit.ScanJSON(&s.UpstreamDNSServers), &s.DeployUser, &s.DeploySSHIface, &s.DeploySSHPublicKey,
		sqlkit.ScanJSON(&s.CommissioningScripts), &s.DefaultProfileID, &s.DefaultProfile,
		&s.APITokenPath, &s.PowerPath, &s.DeployPasswordPath, &s.DeploySSHKeyPath,
		sqlkit.ScanMicros(&s.APITokenSetAt), sqlkit.ScanMicros(&s.PowerSetAt), sqlkit.ScanMicros(&s.DeployPasswordSetAt),
		sqlkit.ScanMicros(&s.CreatedAt), sqlkit.ScanMicros(&s.UpdatedAt),
		&s.Issuer.Organisation, &s.Issuer.Contact, &s.Issuer.TrustURL)
	return s, err
}

// site reads a site by its id or name, with a lock clause of the dialect.
func site(ctx context.Context, r sqlkit.Runner, ref, lock string) (broker.Site, error) {
	s, err := scanSite(r.QueryRowContext(ctx, `SELECT `+siteColumns+` FROM maas_sites WHERE id = $1 OR name = $1`+lock, ref))
	if errors.Is(err, sql.ErrNoRows) {
		return s, broker.Errorf(broker.NotFound, "site_not_found", "there is no site %q (see hostler site list)", ref)
	}
	return s, err
}

// Site finds a site by its id or name. Code: site_not_found.
func (db *DB) Site(ctx context.Context, ref string) (broker.Site, error) {
	return site(ctx, db.reader(), ref, "")
}

// Sites lists the named sites (nil: all), ordered by name.
func (db *DB) Sites(ctx context.Context, names []string) ([]broker.Site, error) {
	var w sqlkit.Where
	sqlkit.In(&w, "name", names)
	return sqlkit.Collect(ctx, db.reader(), scanSite, `SELECT `+siteColumns+` FROM maas_sites`+w.String()+` ORDER BY name`, w.Args...)
}

// CreateSite creates a site and its default profile. Codes: site_invalid, profile_invalid,
// site_exists, site_region_taken.
func (db *DB) CreateSite(ctx context.Context, actor broker.Actor, s broker.Site, p broker.Profile) (made broker.Site, err error) {
	if err := errors.Join(s.Check(), p.Check()); err != nil {
		return made, err
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		s := s
		s.DefaultProfileID = p.ID
		n, err := sqlkit.Changed(t.ExecContext(ctx,
			`INSERT INTO maas_sites (id, name, region_code, status, api_base_url, ca_cert, pxe_iface, pxe_vlan_vid, node_pxe_iface,
			distro_series, architecture, upstream_dns_servers, deploy_user, deploy_ssh_iface, commissioning_scripts, default_profile_id,
			api_token_vault_path, default_power_creds_vault_path, deploy_password_vault_path, deploy_ssh_key_vault_path, created_at, updated_at,
			issuer_organisation, issuer_contact, issuer_trust_url)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $21, $22, $23, $24) ON CONFLICT (name) DO NOTHING`,
			s.ID, s.Name, s.RegionCode, string(s.Status), s.APIBaseURL, s.CACert, s.PXEIface, s.PXEVLANVID, s.NodePXEIface,
			s.DistroSeries, s.Architecture, sqlkit.JSON(s.UpstreamDNSServers), s.DeployUser, s.DeploySSHIface,
			sqlkit.JSON(s.CommissioningScripts), s.DefaultProfileID,
			s.APITokenPath, s.PowerPath, s.DeployPasswordPath, s.DeploySSHKeyPath, sqlkit.Micros(t.now),
			s.Issuer.Organisation, s.Issuer.Contact, s.Issuer.TrustURL))
		if err != nil {
			return err
		}
		if n == 0 {
			return broker.Errorf(broker.Refused, "site_exists",
				"cannot create site %s: a site of that name exists (see hostler site show %s)", s.Name, s.Name)
		}
		if err := t.regionFree(ctx, s); err != nil {
			return err
		}
		if err := t.insertProfile(ctx, actor, s, p); err != nil {
			return err
		}
		if made, err = site(ctx, t, s.ID, ""); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{Actor: actor.Name, Action: "site.create", Subject: "site/" + s.Name, After: siteAudit(made)})
	})
	return made, err
}

// UpdateSite applies change to a site. Name, secret paths and credentials cannot change. Address
// and ca_cert cannot change either while the site has a token: the token is sent only to the
// address at which it was checked. Codes: site_not_found, site_invalid, site_address_bound,
// site_region_taken, profile_not_found, profile_disabled.
func (db *DB) UpdateSite(
	ctx context.Context, actor broker.Actor, ref, reason string, change func(*broker.Site) error,
) (s broker.Site, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		before, err := site(ctx, t, ref, t.ForUpdate())
		if err != nil {
			return err
		}
		s = before
		if err := change(&s); err != nil {
			return err
		}
		if err := s.Check(); err != nil {
			return err
		}
		switch {
		case s.ID != before.ID || s.Name != before.Name:
			return broker.Errorf(broker.Invalid, "site_invalid", "cannot rename site %s: nodes refer to it by that name", before.Name)
		case (s.APIBaseURL != before.APIBaseURL || s.CACert != before.CACert) && !before.APITokenSetAt.IsZero():
			return broker.Errorf(broker.Refused, "site_address_bound",
				"cannot change the address or ca_cert of site %s: its MAAS token was checked with the present ones (give the token together with the new ones: hostler site credentials %s --api-base-url URL --ca-cert-file FILE --maas-token-file FILE)", s.Name, s.Name)
		}
		if s.DefaultProfileID != before.DefaultProfileID {
			p, err := profile(ctx, t, s.ID, s.DefaultProfileID, "")
			if err != nil {
				return err
			}
			if p.Status != broker.SiteActive {
				return broker.Errorf(broker.Refused, "profile_disabled", "cannot make profile %s the default of site %s: it is disabled",
					p.Name, s.Name)
			}
			s.DefaultProfileID, s.DefaultProfile = p.ID, p.Name
		}
		return t.saveSite(ctx, actor, "site.update", reason, before, &s)
	})
	return s, err
}

// Credentials names the site's secrets that are about to be written, and the address at which the
// token was checked.
type Credentials struct {
	APIToken, Power, DeployPassword bool
	APIBaseURL, CACert              string // with APIToken
	DeploySSHPublicKey              string // with DeploySSHKeyPath, for a site without a deploy key; empty: unchanged
	DeploySSHKeyPath                string
}

// SetSiteCredentials records the secrets that are about to be written. The record precedes the
// secrets: a crash in between leaves a site whose token differs from the recorded token, and such a
// token is refused on use. An existing deploy key stays; the returned site names the key. Codes:
// site_not_found, site_region_taken.
func (db *DB) SetSiteCredentials(ctx context.Context, actor broker.Actor, id, reason string, c Credentials) (s broker.Site, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		before, err := site(ctx, t, id, t.ForUpdate())
		if err != nil {
			return err
		}
		s = before
		for set, to := range map[*time.Time]bool{
			&s.APITokenSetAt: c.APIToken, &s.PowerSetAt: c.Power,
			&s.DeployPasswordSetAt: c.DeployPassword,
		} {
			if to {
				*set = t.now
			}
		}
		if c.APIToken {
			s.APIBaseURL, s.CACert = c.APIBaseURL, c.CACert
		}
		if c.DeploySSHPublicKey != "" && before.DeploySSHPublicKey == "" {
			s.DeploySSHPublicKey, s.DeploySSHKeyPath = c.DeploySSHPublicKey, c.DeploySSHKeyPath
		}
		return t.saveSite(ctx, actor, "site.credentials", reason, before, &s)
	})
	return s, err
}

// sitesGate is the lock that a transaction holds alone, until its commit, to assign a region.
const sitesGate = leadLock + 2

// inUse selects sites that may ask their region: active sites, and sites with unended runs, which
// may be resumed.
const inUse = `(status = 'active' OR EXISTS (SELECT 1 FROM chain_runs r WHERE r.site = maas_sites.name AND r.` + openRuns + `))`

// regionFree refuses a site in use whose region belongs to another site in use. Locks of machines,
// hostnames and BMCs are per site, so two sites of one region would not see each other's locks.
// Code: site_region_taken.
func (t *tx) regionFree(ctx context.Context, s broker.Site) error {
	if err := t.lock(ctx, t.GateAlone(), sitesGate); err != nil {
		return err
	}
	used := s.Status == broker.SiteActive
	if !used {
		err := t.QueryRowContext(ctx, `SELECT COUNT(*) > 0 FROM maas_sites WHERE id = $1 AND `+inUse, s.ID).Scan(&used)
		if err != nil || !used {
			return err
		}
	}
	others, err := sqlkit.Collect(ctx, t, scanSite, `SELECT `+siteColumns+` FROM maas_sites WHERE id <> $1 AND `+inUse+` ORDER BY name`,
		s.ID)
	for _, o := range others {
		if o.Region() == s.Region() {
			return broker.Errorf(broker.Refused, "site_region_taken",
				"cannot use site %s at %s: site %s already uses that MAAS region (use that site, or disable it and let its runs end)",
				s.Name, s.APIBaseURL, o.Name)
		}
	}
	return err
}

// saveSite writes a site. A change of its status waits for the placements under way, and placements
// that begin later see it: once a site is disabled, no node of the site is claimed any more.
func (t *tx) saveSite(ctx context.Context, actor broker.Actor, action, reason string, before broker.Site, s *broker.Site) error {
	if s.Status != before.Status && s.Status == broker.SiteActive || s.APIBaseURL != before.APIBaseURL {
		if err := t.regionFree(ctx, *s); err != nil {
			return err
		}
	}
	if s.Status != before.Status {
		if err := t.shutOut(ctx); err != nil {
			return err
		}
		t.hint(HintNode, "")
	}
	if s.DefaultProfileID != before.DefaultProfileID {
		if err := t.defaultChanges(ctx, before, *s); err != nil {
			return err
		}
	}
	s.UpdatedAt = t.now
	if _, err := t.ExecContext(ctx,
		`UPDATE maas_sites SET region_code = $1, status = $2, api_base_url = $3, ca_cert = $4, pxe_iface = $5, pxe_vlan_vid = $6, node_pxe_iface = $7,
		distro_series = $8, architecture = $9, upstream_dns_servers = $10, deploy_user = $11, deploy_ssh_iface = $12, deploy_ssh_public_key = $13, commissioning_scripts = $14,
		default_profile_id = $15, api_token_set_at = $16, default_power_creds_set_at = $17, deploy_password_set_at = $18, updated_at = $19, deploy_ssh_key_vault_path = $20,
		issuer_organisation = $21, issuer_contact = $22, issuer_trust_url = $23 WHERE id = $24`,
		s.RegionCode, string(s.Status), s.APIBaseURL, s.CACert, s.PXEIface, s.PXEVLANVID, s.NodePXEIface,
		s.DistroSeries, s.Architecture, sqlkit.JSON(s.UpstreamDNSServers), s.DeployUser, s.DeploySSHIface, s.DeploySSHPublicKey,
		sqlkit.JSON(s.CommissioningScripts),
		s.DefaultProfileID, sqlkit.Micros(s.APITokenSetAt), sqlkit.Micros(s.PowerSetAt), sqlkit.Micros(s.DeployPasswordSetAt),
		sqlkit.Micros(t.now), s.DeploySSHKeyPath,
		s.Issuer.Organisation, s.Issuer.Contact, s.Issuer.TrustURL, s.ID); err != nil {
		return err
	}
	return t.audit(ctx, broker.AuditEntry{
		Actor: actor.Name, Action: action, Subject: "site/" + s.Name, Reason: reason,
		Before: siteAudit(before), After: siteAudit(*s),
	})
}

// siteAudit is a site for the audit log: all fields, as none is a secret.
func siteAudit(s broker.Site) json.RawMessage {
	when := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Format(time.RFC3339)
	}
	return small("id", s.ID, "region_code", s.RegionCode, "status", s.Status, "api_base_url", s.APIBaseURL, "ca_cert", s.CACert,
		"pxe_iface", s.PXEIface, "pxe_vlan_vid", s.PXEVLANVID, "node_pxe_iface", s.NodePXEIface, "distro_series", s.DistroSeries,
		"architecture", s.Architecture,
		"upstream_dns_servers", s.UpstreamDNSServers, "deploy_user", s.DeployUser, "deploy_ssh_iface", s.DeploySSHIface,
		"deploy_ssh_public_key", s.DeploySSHPublicKey,
		"issuer_organisation", s.Issuer.Organisation, "issuer_contact", s.Issuer.Contact, "issuer_trust_url", s.Issuer.TrustURL,
		"commissioning_scripts", s.CommissioningScripts, "default_profile_id", s.DefaultProfileID,
		"api_token_set_at", when(s.APITokenSetAt), "default_power_creds_set_at", when(s.PowerSetAt),
		"deploy_password_set_at", when(s.DeployPasswordSetAt))
}
