package operators

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operators/oidc"
	"github.com/hostler/hostler/taskcatalog"
)

// PeopleConfig says who may sign in by OIDC, and as what.
type PeopleConfig struct {
	oidc.Config `yaml:",inline"`
	Rules       []Rule `yaml:"rules"` // the first rule that matches a person counts
}

// Rule gives a role at a place to the people whose claim has a value.
type Rule struct {
	Claim        string      `yaml:"claim"`
	Value        string      `yaml:"value"`
	Role         broker.Role `yaml:"role"`
	Sites        []string    `yaml:"sites"`        // of a role of the platform; empty: all
	Organisation string      `yaml:"organisation"` // id or name
	Project      string      `yaml:"project"`      // id, or ORGANISATION/NAME
}

const (
	maxRules     = 1000
	maxRuleText  = 256
	signInEvery  = 12 * time.Hour // see People.seen
	signInWrites = 1
)

// check refuses a rule that nobody could use. Code: oidc_config_invalid.
func (r Rule) check(number int) error {
	for name, text := range map[string]string{"claim": r.Claim, "value": r.Value} {
		if text == "" || len(text) > maxRuleText || taskcatalog.Clean(text, maxRuleText) != text {
			return oidc.Misconfigured("rule %d: %s must be a text of at most %d characters", number, name, maxRuleText)
		}
	}
	place := broker.Place{OrganisationID: r.Organisation}
	if r.Project != "" {
		if r.Organisation != "" {
			return oidc.Misconfigured("rule %d names an organisation and a project (name one; a project may be ORGANISATION/NAME)", number)
		}
		if !strings.HasPrefix(r.Project, broker.ProjectPrefix) && !strings.Contains(r.Project, "/") {
			return oidc.Misconfigured("rule %d: project must be an id, or ORGANISATION/NAME: names are unique within an organisation alone", number)
		}
		place = broker.Place{OrganisationID: "any", ProjectID: r.Project}
	}
	if err := (&NewToken{Name: "rule", Role: r.Role, Sites: r.Sites, Place: place}).check(); err != nil {
		return oidc.Misconfigured("rule %d: %s", number, broker.AsError(err).Message)
	}
	return nil
}

// People are those who sign in by OIDC.
type People struct {
	provider *oidc.Provider
	rules    []Rule
	seen     *limits // audits a person's sign-in with an address, a role and a place now and then
}

// NewPeople makes the people of a config; the provider is not read. Code: oidc_config_invalid.
func NewPeople(c PeopleConfig, now func() time.Time) (*People, error) {
	provider, err := oidc.New(c.Config, now)
	if err != nil {
		return nil, err
	}
	if len(c.Rules) == 0 || len(c.Rules) > maxRules {
		return nil, oidc.Misconfigured("there are %d rules, and must be between 1 and %d: without a rule nobody can sign in", len(c.Rules), maxRules)
	}
	for i, r := range c.Rules {
		if err := r.check(i + 1); err != nil {
			return nil, err
		}
	}
	return &People{provider: provider, rules: c.Rules, seen: newLimits(rate.Every(signInEvery), signInWrites)}, nil
}

// Admit makes the directory authenticate people beside the bearers of operator tokens. It must be
// called before the first request.
func (d *Directory) Admit(p *People) { d.people = p }

// SignIn returns where and how people sign in. Codes: oidc_not_configured, oidc_unavailable,
// oidc_no_device_code.
func (d *Directory) SignIn(ctx context.Context) (oidc.SignIn, error) {
	if d.people == nil {
		return oidc.SignIn{}, broker.Errorf(broker.NotFound, "oidc_not_configured",
			"cannot sign in: this broker has no provider of sign-ins (use an operator token: hostler login --token-file FILE)")
	}
	return d.people.provider.SignIn(ctx)
}

// person returns a person as a token that ends with the ID token. Codes: oidc_token_invalid,
// token_expired, oidc_unavailable, oidc_no_role, person_denied, rate_limited.
func (d *Directory) person(ctx context.Context, raw string, from netip.Addr) (broker.OperatorToken, error) {
	now := d.now()
	who, err := d.people.provider.Verify(ctx, raw)
	if err != nil {
		if broker.AsError(err).Kind == broker.Unauthorized {
			return broker.OperatorToken{}, d.stranger(from, now, err)
		}
		return broker.OperatorToken{}, err
	}
	token := broker.OperatorToken{Name: who.Name, Email: who.Email, CreatedAt: who.Issued, ExpiresAt: who.Expires}
	if wait := d.tokens.take(token.Name, now); wait > 0 {
		return token, tooMany("of "+token.Name, wait)
	}
	rule, number := d.people.ruleOf(who)
	if number == 0 {
		return token, broker.Errorf(broker.Forbidden, "oidc_no_role",
			"cannot let %s in: no rule of the broker gives them a role (ask a platform admin: oidc.rules of the broker's config)", token.Name)
	}
	token.Role, token.Sites = rule.Role, rule.Sites
	if token.Place, err = d.placeOf(ctx, rule); err != nil {
		if broker.AsError(err).Kind == broker.Internal {
			return token, err
		}
		return token, broker.Errorf(broker.Forbidden, "oidc_no_role",
			"cannot let %s in: the place that rule %d of the broker's config gives them is not there or has ended (ask a platform admin)",
			token.Name, number)
	}
	if err := d.notDenied(ctx, token.Name, token.Place); err != nil {
		return token, err
	}
	return token, d.auditSignIn(ctx, token, number, now)
}

func isPerson(name string) bool { return broker.OperatorToken{Name: name}.SignedIn() }

// notDenied refuses a person who is denied at a place. The platform denies nobody: its people are in the
// rules. Code: person_denied.
func (d *Directory) notDenied(ctx context.Context, name string, at broker.Place) error {
	if at.OfPlatform() {
		return nil
	}
	denied, err := d.db.PersonDenied(ctx, name, at)
	if err != nil || !denied {
		return err
	}
	return broker.Errorf(broker.Forbidden, "person_denied",
		"cannot let %s in: an admin of the project or the organisation has denied them there (ask that admin: hostler member allow)", name)
}

// endDenied ends the requests of a person at each place where the person is denied. While the store is
// down, requests continue.
func (d *Directory) endDenied(ctx context.Context, name string) {
	d.mu.Lock()
	running := slices.Collect(maps.Keys(d.live[name]))
	d.mu.Unlock()
	refusals := map[broker.Place]error{}
	for _, r := range running {
		no, looked := refusals[r.at]
		if !looked {
			if no = d.notDenied(ctx, name, r.at); broker.AsError(no).Code != "person_denied" {
				no = nil
			}
			refusals[r.at] = no
		}
		if no != nil {
			r.cancel(no)
		}
	}
}

// ruleOf finds the first rule that matches, and its number; 0: none.
func (p *People) ruleOf(who oidc.Person) (Rule, int) {
	for i, r := range p.rules {
		if who.Has(r.Claim, r.Value) {
			return r, i + 1
		}
	}
	return Rule{}, 0
}

// placeOf looks a rule's place up, at each request: a place that ends takes its people's roles along.
func (d *Directory) placeOf(ctx context.Context, r Rule) (broker.Place, error) {
	switch {
	case r.Project != "":
		p, err := d.db.Project(ctx, broker.Place{}, r.Project)
		if err == nil && !p.EndedAt.IsZero() {
			err = broker.Errorf(broker.NotFound, "project_ended", "project %s has ended", p.ID)
		}
		return p.Place(), err
	case r.Organisation != "":
		o, err := d.db.Organisation(ctx, broker.Place{}, r.Organisation)
		if err == nil && !o.EndedAt.IsZero() {
			err = broker.Errorf(broker.NotFound, "organisation_ended", "organisation %s has ended", o.ID)
		}
		return broker.Place{OrganisationID: o.ID}, err
	}
	return broker.Place{}, nil
}

// auditSignIn records who a person is, and by which rule they have their role, the first time and
// every signInEvery: the other rows of the audit log have the person's name alone. The row is written
// even if the caller leaves, and by the next request if it could not be written.
func (d *Directory) auditSignIn(ctx context.Context, t broker.OperatorToken, rule int, now time.Time) error {
	key := strings.Join([]string{t.Name, t.Email, string(t.Role), t.Place.OrganisationID, t.Place.ProjectID, strconv.Itoa(rule)}, "\x00")
	if d.people.seen.take(key, now) > 0 {
		return nil
	}
	err := d.db.AuditSignIn(context.WithoutCancel(ctx), t, rule)
	if err != nil {
		d.people.seen.drop(key)
	}
	return err
}
