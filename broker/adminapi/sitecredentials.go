package adminapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

type siteCredentialsInput struct {
	SiteInput
	Body api.SiteCredentials
}

// maasPatience bounds the time that a caller waits for MAAS.
const maasPatience = 45 * time.Second

// setSiteCredentials tries a token before anything is stored, and then stores all given secrets.
// The record is written before the secrets: the state that a crash leaves between the two is
// refused when used, and the same request repeated repairs it.
func (a *API) setSiteCredentials(ctx context.Context, in *siteCredentialsInput) (*api.SiteCredentialsSet, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	given, err := readCredentials(&s, in.Body)
	if err != nil {
		return nil, err
	}
	out := &api.SiteCredentialsSet{Set: given.names()}
	if given.token != nil {
		id, err := a.tokenOwner(ctx, s, *given.token)
		if err != nil {
			return nil, err
		}
		out.MAASVersion, out.MAASUser = id.Version, id.User
	}
	a.credentials.Lock()
	defer a.credentials.Unlock()
	now, err := a.c.DB.Site(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	record := store.Credentials{
		APIToken: given.token != nil, Power: given.power != nil, DeployPassword: given.password != "",
		APIBaseURL: s.APIBaseURL, CACert: s.CACert,
	}
	if now.DeploySSHPublicKey == "" {
		// The private half is stored first: a key without a record is unknown to everybody.
		private, err := maas.NewDeployKey(rand.Reader, &now)
		if err != nil {
			return nil, err
		}
		if err := maas.PutDeployKey(ctx, a.c.Secrets, now, private); err != nil {
			return nil, err
		}
		record.DeploySSHPublicKey, record.DeploySSHKeyPath = now.DeploySSHPublicKey, now.DeploySSHKeyPath
	}
	if s, err = a.c.DB.SetSiteCredentials(ctx, callerOf(ctx).actor(), s.ID, taskcatalog.Clean(in.Body.Reason, 500), record); err != nil {
		return nil, err
	}
	switch made := record.DeploySSHKeyPath; made {
	case "":
	case s.DeploySSHKeyPath:
		out.Set = append(out.Set, "deploy_ssh_key")
	default: // another broker's key was recorded first
		if err := a.c.Secrets.Delete(ctx, made); err != nil {
			return nil, err
		}
	}
	if given.token != nil {
		if err := maas.PutToken(ctx, a.c.Secrets, s, *given.token); err != nil {
			return nil, err
		}
	}
	if given.power != nil {
		if err := maas.PutPower(ctx, a.c.Secrets, s.PowerPath, *given.power); err != nil {
			return nil, err
		}
	}
	if given.password != "" {
		if err := maas.PutDeployPassword(ctx, a.c.Secrets, s, given.password); err != nil {
			return nil, err
		}
	}
	out.Site = siteResource(s)
	return out, nil
}

// givenCredentials are the well-formed credentials of a call, ready to be tried.
type givenCredentials struct {
	token    *maas.Key
	power    *maas.Power
	password string
}

func (g givenCredentials) names() []string {
	out := []string{}
	if g.token != nil {
		out = append(out, "maas_token")
	}
	if g.power != nil {
		out = append(out, "power")
	}
	if g.password != "" {
		out = append(out, "deploy_password")
	}
	return out
}

// readCredentials checks the given credentials, and puts a new address or ca_cert into s.
func readCredentials(s *broker.Site, c api.SiteCredentials) (g givenCredentials, err error) {
	bad := func(why string) (givenCredentials, error) {
		return g, broker.Errorf(broker.Invalid, "site_credentials_invalid", "cannot store credentials of site %s: %s", s.Name, why)
	}
	if c.MAASToken != "" {
		k, err := maas.ParseKey(c.MAASToken)
		if err != nil {
			return g, err
		}
		g.token = &k
	}
	if c.APIBaseURL != "" || c.CACert != "" {
		if g.token == nil {
			return bad("a new address or ca_cert needs a token, which the broker checks there")
		}
		s.APIBaseURL, s.CACert = cmp.Or(c.APIBaseURL, s.APIBaseURL), cmp.Or(c.CACert, s.CACert)
		if err := s.Check(); err != nil {
			return g, err
		}
	}
	if c.PowerUser != "" || c.PowerPassword != "" {
		p, err := maas.NewPower(c.PowerUser, c.PowerPassword)
		if err != nil {
			return g, err
		}
		g.power = &p
	}
	if c.DeployPassword != "" {
		if taskcatalog.Clean(c.DeployPassword, 2048) != c.DeployPassword {
			return bad("the deploy password has control characters")
		}
		g.password = c.DeployPassword
	}
	if g.token == nil && g.power == nil && g.password == "" {
		return bad("the request has no credential (maas_token, power_user with power_password, deploy_password)")
	}
	return g, nil
}

// tokenOwner asks MAAS which user owns the token. Codes: maas_unreachable, maas_token_refused,
// maas_token_not_admin, maas_clock_skew.
func (a *API) tokenOwner(ctx context.Context, s broker.Site, k maas.Key) (maas.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, maasPatience)
	defer cancel()
	region, err := a.c.Sites.Open(s, k)
	if err != nil {
		return maas.Identity{}, err
	}
	refuse := func(code, why string) (maas.Identity, error) {
		return maas.Identity{}, broker.Errorf(broker.Invalid, code, "cannot store credentials of site %s: %s (nothing was stored)", s.Name,
			why)
	}
	id, err := region.Identify(ctx)
	switch class := maas.ClassOf(err); {
	case err == nil && !id.Admin:
		return refuse("maas_token_not_admin", "the token belongs to "+id.User+", who is not an administrator of MAAS")
	case err == nil:
		return id, nil
	case class == maas.Unauthorized, class == maas.Forbidden:
		return refuse("maas_token_refused", err.Error())
	case class == maas.ClockSkew:
		return refuse("maas_clock_skew", err.Error())
	}
	return refuse("maas_unreachable", err.Error())
}

type probeInput struct {
	SiteInput
	Profile string `query:"profile" maxLength:"63" doc:"the site's id or name; default: all active sites"`
}

// probeSite checks the site's requirements. The probe changes nothing.
func (a *API) probeSite(ctx context.Context, in *probeInput) (*api.SiteProbe, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	profiles, err := a.probed(ctx, s, in.Profile)
	if err != nil {
		return nil, err
	}
	overrides, err := a.c.DB.PowerOverrides(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, maasPatience)
	defer cancel()
	r := a.c.Sites.Preflight(ctx, s, profiles, overrides)
	out := &api.SiteProbe{
		Site: s.Name, At: a.c.Now().UTC(), OK: len(r.Failed()) == 0, MAASVersion: r.Version,
		Checks: make([]api.SiteCheck, len(r.Checks)),
	}
	for i, c := range r.Checks {
		out.Checks[i] = api.SiteCheck{
			Check: c.Name, Status: string(c.Verdict), Detail: taskcatalog.Clean(c.Detail, 1000),
			NextStep: taskcatalog.Clean(c.NextStep, 500),
		}
	}
	return out, nil
}

func (a *API) probed(ctx context.Context, s broker.Site, ref string) ([]broker.Profile, error) {
	if ref != "" {
		p, err := a.c.DB.Profile(ctx, s.ID, ref)
		return []broker.Profile{p}, err
	}
	all, err := a.c.DB.Profiles(ctx, s.ID)
	var active []broker.Profile
	for _, p := range all {
		if p.Status == broker.SiteActive {
			active = append(active, p)
		}
	}
	return active, err
}
