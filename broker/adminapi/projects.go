package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
)

// ProjectInput names a project.
type ProjectInput struct {
	Project string `path:"project" maxLength:"130" doc:"the project's id, its name, or ORGANISATION/NAME"`
}

// project finds the named project among those that the caller's place reaches. Every other project
// is answered like a project that does not exist.
func (a *API) project(ctx context.Context, ref string) (broker.Project, error) {
	return a.c.DB.Project(ctx, callerOf(ctx).Place, ref)
}

type projectsInput struct {
	TenantPageInput
	Organisation string `query:"organisation" maxLength:"64" doc:"only projects of this organisation"`
}

func (a *API) listProjects(ctx context.Context, in *projectsInput) (*api.ProjectList, error) {
	within := callerOf(ctx).Place
	if in.Organisation != "" {
		o, err := a.organisation(ctx, in.Organisation)
		if err != nil {
			return nil, err
		}
		within.OrganisationID = o.ID
	}
	page, next, err := a.c.DB.Projects(ctx, in.page(within))
	if err != nil {
		return nil, err
	}
	return &api.ProjectList{Items: resources(page, projectResource), Next: next}, nil
}

type createProjectInput struct {
	OrganisationInput
	Body api.ProjectCreate
}

func (a *API) createProject(ctx context.Context, in *createProjectInput) (*api.Project, error) {
	o, err := a.organisation(ctx, in.Organisation)
	if err != nil {
		return nil, err
	}
	return resource(projectResource)(a.c.Tenants.CreateProject(withReason(ctx, in.Body.Reason), callerOf(ctx).actor(), o.ID, in.Body.Name))
}

func (a *API) showProject(ctx context.Context, in *ProjectInput) (*api.Project, error) {
	return resource(projectResource)(a.project(ctx, in.Project))
}

type endProjectInput struct {
	ProjectInput
	Body api.ReasonBody
}

func (a *API) endProject(ctx context.Context, in *endProjectInput) (*api.Project, error) {
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Body.Reason, "project.end", "project/"+p.ID, "end project "+p.Name)
	if err != nil {
		return nil, err
	}
	return resource(projectResource)(a.c.Tenants.EndProject(ctx, callerOf(ctx).actor(), p.ID, reason))
}

func projectResource(p broker.Project) api.Project {
	return api.Project{ID: p.ID, OrganisationID: p.OrganisationID, Name: p.Name, CreatedAt: p.CreatedAt, EndedAt: timeOrNull(p.EndedAt)}
}
