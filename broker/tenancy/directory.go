package tenancy

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// Directory creates, changes and ends what belongs to tenants. Reads go to the store.
type Directory struct{ db *store.DB }

// New makes a directory of the store's tenants.
func New(db *store.DB) *Directory { return &Directory{db} }

// CreateOrganisation makes an organisation. Codes: name_invalid, organisation_exists.
func (d *Directory) CreateOrganisation(ctx context.Context, actor broker.Actor, name string) (broker.Organisation, error) {
	if err := broker.CheckTenantName(name); err != nil {
		return broker.Organisation{}, err
	}
	return d.db.CreateOrganisation(ctx, actor, broker.Organisation{
		ID: broker.NewTenantID(broker.OrganisationPrefix, d.db.Now()), Name: name,
	})
}

// CreateProject makes a project of an organisation. Codes: name_invalid, organisation_not_found,
// organisation_ended, project_exists.
func (d *Directory) CreateProject(ctx context.Context, actor broker.Actor, organisationID, name string) (broker.Project, error) {
	if err := broker.CheckTenantName(name); err != nil {
		return broker.Project{}, err
	}
	return d.db.CreateProject(ctx, actor, broker.Project{
		ID: broker.NewTenantID(broker.ProjectPrefix, d.db.Now()), OrganisationID: organisationID, Name: name,
	})
}

// EndOrganisation ends an organisation. Codes: organisation_not_found, organisation_in_use.
func (d *Directory) EndOrganisation(ctx context.Context, actor broker.Actor, id, reason string) (broker.Organisation, error) {
	return d.db.EndOrganisation(ctx, actor, id, reason)
}

// EndProject ends a project. Codes: project_not_found, project_in_use.
func (d *Directory) EndProject(ctx context.Context, actor broker.Actor, id, reason string) (broker.Project, error) {
	return d.db.EndProject(ctx, actor, id, reason)
}

// AddMember makes a member at a place, and lifts a denial of that person there. Codes: member_invalid,
// role_invalid, role_insufficient, organisation_not_found, organisation_ended, project_not_found,
// project_ended, member_exists, person_denied.
func (d *Directory) AddMember(
	ctx context.Context, actor broker.Actor, place broker.Place, subject string, role broker.Role,
) (broker.Member, error) {
	m := broker.Member{ID: broker.NewTenantID(broker.MemberPrefix, d.db.Now()), Subject: subject, Place: place, Role: role}
	if err := m.Check(); err != nil {
		return m, err
	}
	if err := mayGive(actor, role); err != nil {
		return m, err
	}
	return d.db.AddMember(ctx, actor, m)
}

// EndMember ends a member, the member's keys and tokens, and denies a person who signs in. Code:
// member_not_found.
func (d *Directory) EndMember(ctx context.Context, actor broker.Actor, id, reason string) (broker.Member, error) {
	return d.db.EndMember(ctx, actor, id, reason)
}

// DenyPerson denies a person who signs in at a place and below it. Codes: member_invalid,
// organisation_not_found, organisation_ended, project_not_found, project_ended, denial_limit.
func (d *Directory) DenyPerson(ctx context.Context, actor broker.Actor, place broker.Place, subject, reason string) (broker.Member, error) {
	m := broker.Member{ID: broker.NewTenantID(broker.MemberPrefix, d.db.Now()), Subject: subject, Place: place}
	if err := broker.CheckSignsIn(subject); err != nil {
		return m, err
	}
	return d.db.DenyPerson(ctx, actor, m, reason)
}

// AllowPerson lifts the denial of a member's row. Code: member_not_found.
func (d *Directory) AllowPerson(ctx context.Context, actor broker.Actor, id, reason string) (broker.Member, error) {
	return d.db.AllowPerson(ctx, actor, id, reason)
}

// mayGive refuses an actor a role above the actor's own.
func mayGive(actor broker.Actor, role broker.Role) error {
	if actor.Role.Covers(broker.RolePlatformAdmin) || actor.Role.Covers(role) {
		return nil
	}
	return broker.Errorf(broker.Forbidden, "role_insufficient",
		"cannot give role %s: token %s has role %s, which does not include it (ask somebody whose role does)", role, actor.Name, actor.Role)
}

// MayEnd refuses to let the caller end, deny or allow a member unless the caller could have added the member: a
// project_admin a member of a project, whose role is at most that, and a tenant_admin a member of the
// whole organisation. Code: role_insufficient.
func MayEnd(who broker.OperatorToken, m broker.Member) error {
	need := broker.RoleProjectAdmin
	if m.Place.ProjectID == "" {
		need = broker.RoleTenantAdmin
	}
	if who.Role.Covers(broker.RolePlatformAdmin) || who.Role.Covers(need) {
		return nil
	}
	return broker.Errorf(broker.Forbidden, "role_insufficient",
		"cannot change member %s: it needs role %s at the member's place, and token %s has role %s (ask somebody with that role)",
		m.Subject, need, who.Name, who.Role)
}

// MayChangeKeys refuses to let the caller change the keys of a member, unless the member is the
// caller, or the caller may end the member. Code: role_insufficient.
func MayChangeKeys(who broker.OperatorToken, m broker.Member) error {
	own := who.MemberID == m.ID || who.MemberID == "" && who.Name == m.Subject
	if own && who.Place == m.Place && who.Role.Covers(broker.RoleProjectMember) {
		return nil
	}
	return MayEnd(who, m)
}

// AddSSHKey stores a public key of a member. Codes: ssh_key_invalid, member_not_found, member_ended,
// ssh_key_limit.
func (d *Directory) AddSSHKey(ctx context.Context, actor broker.Actor, memberID, line string) (broker.SSHKey, error) {
	k, err := ParseSSHKey(line)
	if err != nil {
		return k, err
	}
	k.ID, k.MemberID = broker.NewTenantID("key-", d.db.Now()), memberID
	return d.db.AddSSHKey(ctx, actor, k)
}

// EndSSHKey ends a key of a member. Code: ssh_key_not_found.
func (d *Directory) EndSSHKey(ctx context.Context, actor broker.Actor, memberID, id, reason string) (broker.SSHKey, error) {
	return d.db.EndSSHKey(ctx, actor, memberID, id, reason)
}

// maxQuota bounds the numbers of a quota.
const maxQuota = 1_000_000

// SetQuota sets what a project may have of a SKU at the same time. Codes: quota_invalid,
// project_not_found, project_ended, sku_not_found.
func (d *Directory) SetQuota(ctx context.Context, actor broker.Actor, q broker.Quota, reason string) (broker.Quota, error) {
	if q.Nodes < 0 || q.Nodes > maxQuota || q.GPUs < 0 || q.GPUs > maxQuota {
		return q, broker.Errorf(broker.Invalid, "quota_invalid", "cannot set the quota of SKU %s: nodes and gpus are between 0 and %d", q.SKU, maxQuota)
	}
	return d.db.SetQuota(ctx, actor, q, reason)
}
