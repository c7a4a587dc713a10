package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/tenancy"
	"github.com/hostler/hostler/taskcatalog"
)

// MemberInput names a member.
type MemberInput struct {
	Member string `path:"member" maxLength:"64"`
}

// member finds the named member at the caller's place or below it.
func (a *API) member(ctx context.Context, id string) (broker.Member, error) {
	return a.c.DB.Member(ctx, callerOf(ctx).Place, id)
}

type organisationMembersInput struct {
	OrganisationInput
	TenantPageInput
}

func (a *API) listOrganisationMembers(ctx context.Context, in *organisationMembersInput) (*api.MemberList, error) {
	o, err := a.organisation(ctx, in.Organisation)
	if err != nil {
		return nil, err
	}
	return a.membersOf(ctx, in.TenantPageInput, broker.Place{OrganisationID: o.ID})
}

type projectMembersInput struct {
	ProjectInput
	TenantPageInput
}

func (a *API) listProjectMembers(ctx context.Context, in *projectMembersInput) (*api.MemberList, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return a.membersOf(ctx, in.TenantPageInput, p.Place())
}

func (a *API) membersOf(ctx context.Context, in TenantPageInput, within broker.Place) (*api.MemberList, error) {
	page, next, err := a.c.DB.Members(ctx, in.page(within))
	if err != nil {
		return nil, err
	}
	return &api.MemberList{Items: resources(page, memberResource), Next: next}, nil
}

type addOrganisationMemberInput struct {
	OrganisationInput
	Body api.MemberAdd
}

func (a *API) addOrganisationMember(ctx context.Context, in *addOrganisationMemberInput) (*api.Member, error) {
	o, err := a.organisation(ctx, in.Organisation)
	if err != nil {
		return nil, err
	}
	return a.addMember(ctx, broker.Place{OrganisationID: o.ID}, in.Body)
}

type addProjectMemberInput struct {
	ProjectInput
	Body api.MemberAdd
}

func (a *API) addProjectMember(ctx context.Context, in *addProjectMemberInput) (*api.Member, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return a.addMember(ctx, p.Place(), in.Body)
}

func (a *API) addMember(ctx context.Context, place broker.Place, in api.MemberAdd) (*api.Member, error) {
	return resource(memberResource)(a.c.Tenants.AddMember(withReason(ctx, in.Reason), callerOf(ctx).actor(), place, in.Subject,
		broker.Role(in.Role)))
}

func (a *API) showMember(ctx context.Context, in *MemberInput) (*api.Member, error) {
	return resource(memberResource)(a.member(ctx, in.Member))
}

type endMemberInput struct {
	MemberInput
	Body api.ReasonBody
}

func (a *API) endMember(ctx context.Context, in *endMemberInput) (*api.Member, error) {
	m, err := a.member(ctx, in.Member)
	if err != nil {
		return nil, err
	}
	if err := a.refusedMember(ctx, "member.end", m, tenancy.MayEnd(callerOf(ctx).OperatorToken, m)); err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Body.Reason, "member.end", "member/"+m.ID, "end member "+m.Subject)
	if err != nil {
		return nil, err
	}
	return resource(memberResource)(a.c.Tenants.EndMember(ctx, callerOf(ctx).actor(), m.ID, reason))
}

type denyOrganisationMemberInput struct {
	OrganisationInput
	Body api.MemberDeny
}

func (a *API) denyOrganisationMember(ctx context.Context, in *denyOrganisationMemberInput) (*api.Member, error) {
	o, err := a.organisation(ctx, in.Organisation)
	if err != nil {
		return nil, err
	}
	return a.denyMember(ctx, broker.Place{OrganisationID: o.ID}, in.Body)
}

type denyProjectMemberInput struct {
	ProjectInput
	Body api.MemberDeny
}

func (a *API) denyProjectMember(ctx context.Context, in *denyProjectMemberInput) (*api.Member, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return a.denyMember(ctx, p.Place(), in.Body)
}

func (a *API) denyMember(ctx context.Context, place broker.Place, in api.MemberDeny) (*api.Member, error) {
	subject := "member/" + taskcatalog.Clean(in.Subject, 64)
	reason, err := a.reasonFor(ctx, in.Reason, "member.deny", subject, "deny "+taskcatalog.Clean(in.Subject, 64))
	if err != nil {
		return nil, err
	}
	return resource(memberResource)(a.c.Tenants.DenyPerson(ctx, callerOf(ctx).actor(), place, in.Subject, reason))
}

type allowMemberInput struct {
	MemberInput
	Body api.ReasonBody
}

func (a *API) allowMember(ctx context.Context, in *allowMemberInput) (*api.Member, error) {
	m, err := a.member(ctx, in.Member)
	if err != nil {
		return nil, err
	}
	if err := a.refusedMember(ctx, "member.allow", m, tenancy.MayEnd(callerOf(ctx).OperatorToken, m)); err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Body.Reason, "member.allow", "member/"+m.ID, "allow "+m.Subject)
	if err != nil {
		return nil, err
	}
	return resource(memberResource)(a.c.Tenants.AllowPerson(ctx, callerOf(ctx).actor(), m.ID, reason))
}

// refusedMember audits a refused change of a member and returns the refusal.
func (a *API) refusedMember(ctx context.Context, action string, m broker.Member, err error) error {
	if err != nil {
		a.auditDenial(ctx, action, "member/"+m.ID, "", broker.AsError(err))
	}
	return err
}

func memberResource(m broker.Member) api.Member {
	return api.Member{
		ID: m.ID, Subject: m.Subject, OrganisationID: m.Place.OrganisationID, ProjectID: m.Place.ProjectID, Role: string(m.Role),
		CreatedAt: m.CreatedAt, EndedAt: timeOrNull(m.EndedAt), DeniedAt: timeOrNull(m.DeniedAt), EndReason: m.EndReason,
	}
}
