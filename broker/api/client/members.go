package client

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/broker/api"
)

// OrganisationMembers lists the members of an organisation and of its projects; with ended, those
// that have ended, too.
func (c *Client) OrganisationMembers(ctx context.Context, organisation string, ended bool) ([]api.Member, error) {
	return c.members(ctx, at("organisations", organisation, "members"), ended)
}

// ProjectMembers lists the members of a project; with ended, those that have ended, too.
func (c *Client) ProjectMembers(ctx context.Context, project string, ended bool) ([]api.Member, error) {
	return c.members(ctx, at("projects", project, "members"), ended)
}

func (c *Client) members(ctx context.Context, path string, ended bool) (all []api.Member, err error) {
	all = []api.Member{}
	err = eachPage(ctx, c, path, endedQuery(ended), func(l *api.MemberList) string {
		all = append(all, l.Items...)
		return l.Next
	})
	return all, err
}

// AddOrganisationMember adds a member to an organisation.
func (c *Client) AddOrganisationMember(ctx context.Context, organisation string, m api.MemberAdd) (*api.Member, error) {
	return submit[api.Member](ctx, c, http.MethodPost, at("organisations", organisation, "members"), m)
}

// AddProjectMember adds a member to a project.
func (c *Client) AddProjectMember(ctx context.Context, project string, m api.MemberAdd) (*api.Member, error) {
	return submit[api.Member](ctx, c, http.MethodPost, at("projects", project, "members"), m)
}

// Member returns a member.
func (c *Client) Member(ctx context.Context, id string) (*api.Member, error) {
	return fetch[api.Member](ctx, c, at("members", id), nil)
}

// EndMember ends a member, with the member's keys, and denies a person who signs in. The record stays.
func (c *Client) EndMember(ctx context.Context, id, reason string) (*api.Member, error) {
	return submit[api.Member](ctx, c, http.MethodPost, at("members", id, "end"), api.ReasonBody{Reason: reason})
}

// DenyOrganisationMember denies a person who signs in, in an organisation and all of its projects.
func (c *Client) DenyOrganisationMember(ctx context.Context, organisation string, d api.MemberDeny) (*api.Member, error) {
	return submit[api.Member](ctx, c, http.MethodPost, at("organisations", organisation, "members", "deny"), d)
}

// DenyProjectMember denies a person who signs in, in a project.
func (c *Client) DenyProjectMember(ctx context.Context, project string, d api.MemberDeny) (*api.Member, error) {
	return submit[api.Member](ctx, c, http.MethodPost, at("projects", project, "members", "deny"), d)
}

// AllowMember lifts the denial of a person who signs in.
func (c *Client) AllowMember(ctx context.Context, id, reason string) (*api.Member, error) {
	return submit[api.Member](ctx, c, http.MethodPost, at("members", id, "allow"), api.ReasonBody{Reason: reason})
}

// SSHKeys lists a member's keys; with ended, those that were removed, too.
func (c *Client) SSHKeys(ctx context.Context, member string, ended bool) (all []api.SSHKey, err error) {
	all = []api.SSHKey{}
	err = eachPage(ctx, c, at("members", member, "keys"), endedQuery(ended), func(l *api.SSHKeyList) string {
		all = append(all, l.Items...)
		return l.Next
	})
	return all, err
}

// AddSSHKey adds a public key of a member.
func (c *Client) AddSSHKey(ctx context.Context, member string, k api.SSHKeyAdd) (*api.SSHKey, error) {
	return submit[api.SSHKey](ctx, c, http.MethodPost, at("members", member, "keys"), k)
}

// RemoveSSHKey removes a key of a member. The record stays.
func (c *Client) RemoveSSHKey(ctx context.Context, member, id, reason string) (*api.SSHKey, error) {
	return remove[api.SSHKey](ctx, c, at("members", member, "keys", id), reason)
}
