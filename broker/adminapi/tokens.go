package adminapi

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/operators"
)

type none struct{}

func (a *API) whoami(ctx context.Context, _ *none) (*api.Token, error) {
	out := tokenResource(callerOf(ctx).OperatorToken)
	return &out, nil
}

func (a *API) listTokens(ctx context.Context, in *PageInput) (*api.TokenList, error) {
	all, err := a.c.Operators.List(ctx)
	if err != nil {
		return nil, err
	}
	out := &api.TokenList{Items: make([]api.Token, len(all))}
	for i, t := range all {
		out.Items[i] = tokenResource(t)
	}
	return out, cut(*in, &out.Items, &out.Next, func(t api.Token) string { return t.Name })
}

type createTokenInput struct{ Body api.TokenCreate }

func (a *API) createToken(ctx context.Context, in *createTokenInput) (*api.TokenCreated, error) {
	n := operators.NewToken{
		Name: in.Body.Name, Role: broker.Role(in.Body.Role), Sites: in.Body.Sites, TTL: time.Duration(in.Body.TTLSeconds) * time.Second,
	}
	var err error
	if in.Body.Member != "" {
		err = a.ofMember(ctx, in.Body, &n)
	} else {
		n.Place, err = a.placeOf(ctx, in.Body)
	}
	if err != nil {
		return nil, err
	}
	t, secret, err := a.c.Operators.Create(withReason(ctx, in.Body.Reason), callerOf(ctx).actor(), n)
	if err != nil {
		return nil, err
	}
	return &api.TokenCreated{Token: tokenResource(t), Secret: secret.Reveal()}, nil
}

// ofMember gives a token to create the role and the place of its member. Codes: member_not_found,
// token_invalid.
func (a *API) ofMember(ctx context.Context, in api.TokenCreate, n *operators.NewToken) error {
	if in.Role != "" || in.Organisation != "" || in.Project != "" {
		return broker.Errorf(broker.Invalid, "token_invalid",
			"cannot create token %s: a member's token has the member's role and place (leave role, organisation and project out)", in.Name)
	}
	m, err := a.member(ctx, in.Member)
	n.MemberID, n.Role, n.Place = m.ID, m.Role, m.Place
	return err
}

// placeOf finds the place that a request for a token names. Codes: organisation_not_found,
// project_not_found, ambiguous_project, token_invalid.
func (a *API) placeOf(ctx context.Context, in api.TokenCreate) (broker.Place, error) {
	switch {
	case in.Organisation != "" && in.Project != "":
		return broker.Place{}, broker.Errorf(broker.Invalid, "token_invalid",
			"cannot create token %s: it names an organisation and a project (name one; a project may be ORGANISATION/NAME)", in.Name)
	case in.Organisation != "":
		o, err := a.organisation(ctx, in.Organisation)
		return broker.Place{OrganisationID: o.ID}, err
	case in.Project != "":
		p, err := a.project(ctx, in.Project)
		return p.Place(), err
	}
	return broker.Place{}, nil
}

type revokeTokenInput struct {
	Name string `path:"name" maxLength:"64"`
	Body api.ReasonBody
}

func (a *API) revokeToken(ctx context.Context, in *revokeTokenInput) (*api.Token, error) {
	// A caller that revokes its own token still gets its answer.
	t, err := a.c.Operators.Revoke(context.WithoutCancel(ctx), callerOf(ctx).actor(), in.Name, in.Body.Reason)
	if err != nil {
		return nil, err
	}
	out := tokenResource(t)
	return &out, nil
}

func tokenResource(t broker.OperatorToken) api.Token {
	return api.Token{
		Name: t.Name, Email: t.Email, Role: string(t.Role), Sites: t.Sites, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt,
		RevokedAt: t.RevokedAt, OrganisationID: t.Place.OrganisationID, ProjectID: t.Place.ProjectID, MemberID: t.MemberID,
	}
}
