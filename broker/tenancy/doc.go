// Package tenancy keeps who may ask for nodes: organisations, their projects, the members of both,
// the members' SSH keys, and the quotas of projects. The main type is Directory.
//
// # Rules
//
//   - An organisation contains projects. A member belongs to an organisation as a whole or to one
//     project, with a role of tenants (broker.Role). A role holds at its place and below it.
//   - Names are unique among the live things of their parent alone, so that a refused name tells
//     nothing about another tenant.
//   - A project without a quota of a SKU may have nothing of that SKU.
//   - An organisation ends when no project and no member of it lives, and a project when no member
//     of it lives. A member's keys end with the member. Nothing is deleted.
//   - Nobody gives a role above the own role.
//   - A person who signs in has a role by the rules of the broker's config. The end of such a member
//     denies the person at that place and below it until the denial is lifted: by AllowPerson, or by
//     adding the person there again. A denial in a project leaves a role of the whole organisation alone:
//     an admin of a project must not shut out an admin of the organisation.
package tenancy
