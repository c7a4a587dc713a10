package adminapi

import (
	"context"
	"maps"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog"
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
	return &api.ProjectList{Items: resources(page, projectView(ctx)), Next: next}, nil
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
	return resource(projectView(ctx))(a.c.Tenants.CreateProject(withReason(ctx, in.Body.Reason), callerOf(ctx).actor(), o.ID, in.Body.Name))
}

func (a *API) showProject(ctx context.Context, in *ProjectInput) (*api.Project, error) {
	return resource(projectView(ctx))(a.project(ctx, in.Project))
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
	return resource(projectView(ctx))(a.c.Tenants.EndProject(ctx, callerOf(ctx).actor(), p.ID, reason))
}

type updateProjectInput struct {
	ProjectInput
	Body api.ProjectUpdate
}

func (a *API) updateProject(ctx context.Context, in *updateProjectInput) (*api.Project, error) {
	b := in.Body
	if b.PlacementOrder == nil && len(b.NodeLabels) == 0 {
		return nil, broker.Errorf(broker.Invalid, "invalid_request", "nothing of project %s is to be changed (give placement_order or node_labels)",
			taskcatalog.Clean(in.Project, 130))
	}
	p, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	reason := taskcatalog.Clean(b.Reason, 500)
	p, err = a.c.DB.SetPlacement(ctx, callerOf(ctx).actor(), p.ID, reason, func(now *broker.ProjectPlacement) error {
		if b.PlacementOrder != nil {
			now.Order = broker.PlacementOrder(*b.PlacementOrder)
		}
		maps.Copy(now.NodeLabels, b.NodeLabels)
		maps.DeleteFunc(now.NodeLabels, func(_, value string) bool { return value == "" })
		return checkLabels(now.NodeLabels)
	})
	return resource(projectView(ctx))(p, err)
}

// projectView is the read model of projects for a caller. A tenant sees nothing of nodes, labels of nodes included.
func projectView(ctx context.Context) func(broker.Project) api.Project {
	ofPlatform := callerOf(ctx).Place.OfPlatform()
	return func(p broker.Project) api.Project {
		out := api.Project{ID: p.ID, OrganisationID: p.OrganisationID, Name: p.Name, CreatedAt: p.CreatedAt, EndedAt: timeOrNull(p.EndedAt)}
		out.OnBegin, out.OnEnd = boundResource(p.Bindings.OnBegin), boundResource(p.Bindings.OnEnd)
		if ofPlatform {
			out.Placement = &api.ProjectPlacement{PlacementOrder: string(p.Placement.Order), NodeLabels: p.Placement.NodeLabels}
		}
		return out
	}
}
