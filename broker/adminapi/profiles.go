package adminapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog"
)

// ProfileInput names a profile of a site.
type ProfileInput struct {
	SiteInput
	Profile string `path:"profile" maxLength:"63" doc:"the site's id or name"`
}

func (a *API) listProfiles(ctx context.Context, in *sitePageInput) (*api.SiteProfileList, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	all, err := a.c.DB.Profiles(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	out := &api.SiteProfileList{Items: make([]api.SiteProfile, len(all))}
	for i, p := range all {
		out.Items[i] = profileResource(s, p)
	}
	return out, cut(in.PageInput, &out.Items, &out.Next, func(p api.SiteProfile) string { return p.ID })
}

func (a *API) showProfile(ctx context.Context, in *ProfileInput) (*api.SiteProfile, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	p, err := a.c.DB.Profile(ctx, s.ID, in.Profile)
	if err != nil {
		return nil, err
	}
	out := profileResource(s, p)
	return &out, nil
}

type createProfileInput struct {
	SiteInput
	Body overlay[api.SiteProfileConfig]
}

func (a *API) createProfile(ctx context.Context, in *createProfileInput) (*api.SiteProfile, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	p := broker.NewProfile(uuid.NewString(), s.ID, "")
	c, err := in.Body.over(profileConfig(p))
	if err != nil {
		return nil, err
	}
	configureProfile(&p, c)
	made, err := a.c.DB.CreateProfile(withReason(ctx, c.Reason), callerOf(ctx).actor(), p)
	if err != nil {
		return nil, err
	}
	out := profileResource(s, made)
	return &out, nil
}

type updateProfileInput struct {
	ProfileInput
	Body overlay[api.SiteProfileConfig]
}

// updateProfile changes a profile. Only later runs copy the change.
func (a *API) updateProfile(ctx context.Context, in *updateProfileInput) (*api.SiteProfile, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	said, err := in.Body.over(api.SiteProfileConfig{}) // only for the reason
	if err != nil {
		return nil, err
	}
	p, err := a.c.DB.UpdateProfile(ctx, callerOf(ctx).actor(), s.ID, in.Profile, taskcatalog.Clean(said.Reason, 500),
		func(p *broker.Profile) error {
			c, err := in.Body.over(profileConfig(*p))
			if err != nil {
				return err
			}
			configureProfile(p, c)
			return nil
		})
	if err != nil {
		return nil, err
	}
	out := profileResource(s, p)
	return &out, nil
}

func configureProfile(p *broker.Profile, c api.SiteProfileConfig) {
	p.Name, p.Description, p.Status, p.Policy = c.Name, c.Description, broker.SiteStatus(c.Status), broker.Policy(c.SitePolicy)
}

func profileConfig(p broker.Profile) api.SiteProfileConfig {
	return api.SiteProfileConfig{Name: p.Name, Description: p.Description, Status: string(p.Status), SitePolicy: api.SitePolicy(p.Policy)}
}

func profileResource(s broker.Site, p broker.Profile) api.SiteProfile {
	return api.SiteProfile{
		ID: p.ID, SiteID: p.SiteID, Default: p.ID == s.DefaultProfileID, SiteProfileConfig: profileConfig(p),
		CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
	}
}
