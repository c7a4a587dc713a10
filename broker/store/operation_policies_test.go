package store_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

const staging = "model.artifact.stage"

// policied makes an organisation with two projects.
func policied(t *testing.T, db *store.DB) (tenant, project, sibling broker.Place) {
	t.Helper()
	must(db.CreateOrganisation(ctx, admin, broker.Organisation{ID: "org-1", Name: "acme"}))(t)
	for _, id := range []string{"prj-1", "prj-2"} {
		must(db.CreateProject(ctx, admin, broker.Project{ID: id, OrganisationID: "org-1", Name: id}))(t)
	}
	return broker.Place{OrganisationID: "org-1"}, broker.Place{OrganisationID: "org-1", ProjectID: "prj-1"},
		broker.Place{OrganisationID: "org-1", ProjectID: "prj-2"}
}

func setPolicy(t *testing.T, db *store.DB, at broker.Place, operation string, o broker.OperationOverlay) broker.OperationPolicy {
	t.Helper()
	return must(db.SetOperationPolicy(ctx, admin, broker.OperationPolicy{Place: at, Operation: operation, Overlay: o}, false, "test"))(t)
}

func TestPoliciesOfOperationsAreKeptByLevelAndOperation(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		tenant, project, sibling := policied(t, db)
		setPolicy(t, db, broker.Place{}, broker.AllOperations, broker.OperationOverlay{RequireSignatureVerification: new(true)})
		setPolicy(t, db, tenant, staging, broker.OperationOverlay{AllowedArtifactSources: []string{"s3:models", "gcs:models"}})
		setPolicy(t, db, project, staging, broker.OperationOverlay{TimeoutSeconds: new(int64(60))})
		clock.Advance(time.Minute)
		kept := setPolicy(t, db, project, staging, broker.OperationOverlay{AllowedArtifactSources: []string{"s3:models/public"}})
		if !kept.UpdatedAt.Equal(clock.Now()) || kept.Overlay.TimeoutSeconds != nil {
			t.Errorf("%+v", kept)
		}
		setPolicy(t, db, sibling, staging, broker.OperationOverlay{Enabled: new(false)})
		setPolicy(t, db, project, "gpu.host.bootstrap", broker.OperationOverlay{Enabled: new(false)})

		if got := must(db.OperationPolicy(ctx, project, staging))(t); !reflect.DeepEqual(got, kept) {
			t.Errorf("%+v, want %+v", got, kept)
		}
		e := must(db.EffectiveOperationPolicy(ctx, project, staging))(t)
		if want := (broker.OperationOverlay{
			AllowedArtifactSources: []string{"s3:models/public"}, RequireSignatureVerification: new(true),
		}); !reflect.DeepEqual(e.Overlay, want) || e.By["allowed_artifact_sources"].Rule.Level != broker.OperationProject {
			t.Errorf("%+v by %+v", e.Overlay, e.By)
		}
		if e := must(db.EffectiveOperationPolicy(ctx, tenant, staging))(t); len(e.Overlay.AllowedArtifactSources) != 2 {
			t.Errorf("a policy of a project holds for its organisation: %+v", e.Overlay)
		}

		page, next, err := db.OperationPolicies(ctx, project, "", 1)
		if err != nil || len(page) != 1 || next != "gpu.host.bootstrap" {
			t.Errorf("%+v %q %v", page, next, err)
		}
		if page, next, err = db.OperationPolicies(ctx, project, next, 1); err != nil || len(page) != 1 || page[0].Operation != staging || next != "" {
			t.Errorf("%+v %q %v", page, next, err)
		}

		ok(t, db.RemoveOperationPolicy(ctx, admin, project, staging, "over"))
		refused(t, db.RemoveOperationPolicy(ctx, admin, project, staging, "over"), "operation_policy_not_found")
		_, err = db.OperationPolicy(ctx, project, staging)
		refused(t, err, "operation_policy_not_found")
		rows := must(db.ListAudit(ctx, store.AuditFilter{Subject: "project/prj-1", Action: "operation_policy.remove"}))(t)
		if len(rows) != 1 || rows[0].Reason != "over" || !strings.Contains(string(rows[0].Before), "s3:models/public") {
			t.Errorf("%+v", rows)
		}
		rows = must(db.ListAudit(ctx, store.AuditFilter{Subject: "project/prj-1", Action: "operation_policy.set"}))(t)
		if len(rows) != 3 || !strings.Contains(string(rows[1].Before), `"timeout_seconds":60`) || !strings.Contains(string(rows[1].After), "s3:models/public") {
			t.Errorf("%+v", rows)
		}
	})
}

// A policy that widens is refused and audited; a wider level that is narrowed later holds all the same.
func TestNoStoredPolicyWidensAWiderOne(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		tenant, project, _ := policied(t, db)
		setPolicy(t, db, project, staging, broker.OperationOverlay{Enabled: new(true), MaxConcurrency: new(int64(9))})
		setPolicy(t, db, tenant, broker.AllOperations, broker.OperationOverlay{Enabled: new(false), MaxConcurrency: new(int64(3))})
		e := must(db.EffectiveOperationPolicy(ctx, project, staging))(t)
		if *e.Overlay.Enabled || *e.Overlay.MaxConcurrency != 3 || e.By["enabled"].Rule.Level != broker.OperationTenant {
			t.Errorf("%+v by %+v", e.Overlay, e.By)
		}
		set := func(o broker.OperationOverlay, narrowOnly bool) error {
			_, err := db.SetOperationPolicy(ctx, admin, broker.OperationPolicy{Place: project, Operation: staging, Overlay: o}, narrowOnly, "")
			return err
		}
		refused(t, set(broker.OperationOverlay{Enabled: new(true)}, false), "policy_cannot_widen")
		if n := audited(t, db, "operation_policy.set", "policy_cannot_widen"); n != 1 {
			t.Errorf("%d refusals are audited", n)
		}
		ok(t, set(broker.OperationOverlay{Enabled: new(false), MaxConcurrency: new(int64(2))}, true))
		refused(t, set(broker.OperationOverlay{MaxConcurrency: new(int64(2))}, true), "policy_cannot_widen")
		refused(t, set(broker.OperationOverlay{Enabled: new(false), MaxConcurrency: new(int64(3))}, true), "policy_cannot_widen")
		ok(t, set(broker.OperationOverlay{MaxConcurrency: new(int64(3))}, false))
		if n := audited(t, db, "operation_policy.set", "policy_cannot_widen"); n != 3 {
			t.Errorf("%d refusals are audited", n)
		}
	})
}

// An ended place gets no policy and can lose one, and a place has a bounded number of them.
func TestPoliciesOfOperationsAreBounded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		tenant, project, sibling := policied(t, db)
		off := broker.OperationOverlay{Enabled: new(false)}
		for i := range 200 {
			setPolicy(t, db, project, fmt.Sprintf("a.b%d", i), off)
		}
		set := func(at broker.Place, operation string) error {
			_, err := db.SetOperationPolicy(ctx, admin, broker.OperationPolicy{Place: at, Operation: operation, Overlay: off}, false, "")
			return err
		}
		refused(t, set(project, staging), "operation_policy_limit")
		ok(t, set(project, "a.b7"))
		setPolicy(t, db, sibling, staging, off)
		setPolicy(t, db, tenant, staging, off)
		must(db.EndProject(ctx, admin, sibling.ProjectID, "over"))(t)
		refused(t, set(sibling, staging), "project_ended")
		ok(t, db.RemoveOperationPolicy(ctx, admin, sibling, staging, "r"))
		refused(t, db.RemoveOperationPolicy(ctx, admin, sibling, staging, "r"), "operation_policy_not_found")
		refused(t, set(broker.Place{OrganisationID: "org-9"}, staging), "organisation_not_found")
		must(db.EndProject(ctx, admin, project.ProjectID, "over"))(t)
		must(db.EndOrganisation(ctx, admin, tenant.OrganisationID, "over"))(t)
		refused(t, set(tenant, staging), "organisation_ended")
		ok(t, db.RemoveOperationPolicy(ctx, admin, tenant, staging, "r"))
		if n := audited(t, db, "operation_policy.remove", ""); n != 2 {
			t.Errorf("%d removals are audited", n)
		}
	})
}

// What a newer broker stored denies everything until it is replaced or removed.
func TestAStoredPolicyThatCannotBeReadDeniesAndCanBeReplaced(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		_, project, _ := policied(t, db)
		setPolicy(t, db, project, staging, broker.OperationOverlay{Enabled: new(true)})
		unread := func() {
			ok(t, store.Exec(ctx, db, `UPDATE operation_policies SET policy = '{"max_nodes":1}'`))
			_, err := db.EffectiveOperationPolicy(ctx, project, staging)
			refused(t, err, "operation_policy_unreadable")
		}
		unread()
		setPolicy(t, db, project, staging, broker.OperationOverlay{Enabled: new(true)})
		must(db.EffectiveOperationPolicy(ctx, project, staging))(t)
		unread()
		ok(t, db.RemoveOperationPolicy(ctx, admin, project, staging, "r"))
		must(db.EffectiveOperationPolicy(ctx, project, staging))(t)
	})
}
