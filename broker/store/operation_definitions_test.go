package store_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// defined is a definition whose content is a text.
func defined(operation, version, text string) broker.OperationDefinition {
	content := fmt.Sprintf("{%q:%q}", "summary", text)
	sum := sha256.Sum256([]byte(content))
	return broker.OperationDefinition{
		Operation: operation, Version: version, Summary: text, Digest: "sha256:" + hex.EncodeToString(sum[:]), Content: []byte(content),
	}
}

func isDefined(t testing.TB, db *store.DB, id, text string, status broker.OperationDefinitionStatus) broker.OperationDefinition {
	t.Helper()
	d := must(db.OperationDefinition(ctx, id))(t)
	want := defined(d.Operation, d.Version, text)
	if d.ID() != id || d.Status != status || d.Digest != want.Digest || string(d.Content) != string(want.Content) || d.Summary != text {
		t.Fatalf("%s is %+v with %s, want %s of %s", id, d, d.Content, status, text)
	}
	return d
}

func pushed(t testing.TB, db *store.DB, d broker.OperationDefinition) broker.OperationDefinition {
	t.Helper()
	kept, _, err := db.PushOperationDefinition(ctx, admin, d)
	ok(t, err)
	return kept
}

// onRecord counts the audit rows of what was done, without those of what was refused.
func onRecord(t testing.TB, db *store.DB, action string) (n int) {
	t.Helper()
	for _, row := range must(db.ListAudit(ctx, store.AuditFilter{Action: "operation_definition." + action, Limit: 10000}))(t) {
		if row.Code == "" && len(row.After) > 0 {
			n++
		}
	}
	return n
}

func moves(db *store.DB, id string, to broker.OperationDefinitionStatus, digest string) error {
	return second(db.MoveOperationDefinition(ctx, admin, id, to, digest, "because"))
}

// The content of a draft may be replaced. That of a definition which was ever active stays, and each change
// and each refused one is on record.
func TestTheContentOfAnActiveDefinitionStays(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		const id = "model.stage@v1"
		first, other, last := defined("model.stage", "v1", "one"), defined("model.stage", "v1", "two"), defined("model.stage", "v1", "three")
		made := pushed(t, db, first)
		clock.Advance(time.Minute)
		kept, had, err := db.PushOperationDefinition(ctx, broker.Actor{Name: "eve"}, first)
		if ok(t, err); !had || !kept.ChangedAt.Equal(made.CreatedAt) || onRecord(t, db, "push") != 1 {
			t.Errorf("the same again: %+v", kept)
		}
		if kept, had, err = db.PushOperationDefinition(ctx, broker.Actor{Name: "eve"}, other); had || err != nil || kept.CreatedBy != admin.Name ||
			kept.ChangedBy != "eve" || !kept.ChangedAt.Equal(clock.Now()) || !kept.CreatedAt.Equal(made.CreatedAt) {
			t.Errorf("other content of a draft: %+v %v", kept, err)
		}
		isDefined(t, db, id, "two", broker.DefinitionDraft)

		refused(t, moves(db, id, broker.DefinitionActive, first.Digest), "operation_definition_changed")
		refused(t, moves(db, id, broker.DefinitionDeprecated, ""), "transition_refused")
		isDefined(t, db, id, "two", broker.DefinitionDraft)
		ok(t, moves(db, id, broker.DefinitionActive, other.Digest))
		ok(t, moves(db, id, broker.DefinitionActive, other.Digest)) // again
		for _, to := range []broker.OperationDefinitionStatus{broker.DefinitionActive, broker.DefinitionDeprecated, broker.DefinitionRetired} {
			ok(t, moves(db, id, to, ""))
			_, _, err = db.PushOperationDefinition(ctx, admin, last)
			refused(t, err, "operation_definition_fixed")
			isDefined(t, db, id, "two", to)
			refused(t, moves(db, id, broker.DefinitionDraft, ""), "transition_refused")
			if _, had, err := db.PushOperationDefinition(ctx, admin, other); !had || err != nil {
				t.Errorf("the same content, while it is %s: %v", to, err)
			}
		}
		refused(t, moves(db, id, broker.DefinitionActive, ""), "transition_refused")
		isDefined(t, db, id, "two", broker.DefinitionRetired)
		refused(t, moves(db, "model.stage@v2", broker.DefinitionActive, ""), "operation_definition_not_found")
		for action, want := range map[string]int{"push": 2, "activate": 1, "deprecate": 1, "retire": 1} {
			if n := onRecord(t, db, action); n != want {
				t.Errorf("%d rows of %s, want %d", n, action, want)
			}
		}
		if audited(t, db, "operation_definition.push", "operation_definition_fixed") == 0 ||
			audited(t, db, "operation_definition.activate", "operation_definition_changed") == 0 {
			t.Error("what was refused is not on record")
		}
	})
}

// What allocations run is not retired: each of them would fail.
func TestABoundDefinitionIsNotRetired(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		const id = "model_x.stage@v1"
		pushed(t, db, defined("model_x.stage", "v1", "one"))
		ok(t, moves(db, id, broker.DefinitionActive, ""))
		sku := broker.NewSKU()
		sku.ID, sku.Bindings.OnEnd = "h100", &broker.BoundOperation{Operation: "modelyx.stage@v1"}
		must(db.CreateSKU(ctx, admin, sku))(t)
		binds := func(b broker.OperationBindings) {
			t.Helper()
			must(db.UpdateSKU(ctx, admin, "h100", "", func(s *broker.SKU) error { s.Bindings = b; return nil }))(t)
		}
		binds(broker.OperationBindings{OnBegin: &broker.BoundOperation{Operation: id}})
		ok(t, moves(db, id, broker.DefinitionDeprecated, "")) // those that run it go on
		refused(t, moves(db, id, broker.DefinitionRetired, ""), "operation_definition_bound")
		isDefined(t, db, id, "one", broker.DefinitionDeprecated)
		binds(broker.OperationBindings{OnEnd: &broker.BoundOperation{Operation: "modelyx.stage@v1"}})
		ok(t, moves(db, id, broker.DefinitionRetired, ""))
	})
}

func TestDefinitionsAreListedByOperationAndStatusInPages(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		for _, d := range []broker.OperationDefinition{
			defined("model.stage", "v1", "a"), defined("model.stage", "v2", "b"), defined("gpu.bootstrap", "v1", "c"), defined("slurm.join", "v1", "d"),
		} {
			pushed(t, db, d)
		}
		ok(t, moves(db, "model.stage@v1", broker.DefinitionActive, ""))
		for _, c := range []struct {
			f          store.OperationDefinitionFilter
			want, next string
		}{
			{store.OperationDefinitionFilter{}, "gpu.bootstrap@v1 model.stage@v1 model.stage@v2 slurm.join@v1", ""},
			{store.OperationDefinitionFilter{Limit: 2}, "gpu.bootstrap@v1 model.stage@v1", "model.stage@v1"},
			{store.OperationDefinitionFilter{Limit: 2, After: "model.stage@v1"}, "model.stage@v2 slurm.join@v1", ""},
			{store.OperationDefinitionFilter{Operation: "model.stage"}, "model.stage@v1 model.stage@v2", ""},
			{store.OperationDefinitionFilter{Operation: "model.stage", Status: broker.DefinitionActive}, "model.stage@v1", ""},
			{store.OperationDefinitionFilter{Status: broker.DefinitionRetired}, "", ""},
		} {
			page, next, err := db.OperationDefinitions(ctx, c.f)
			ok(t, err)
			var ids []string
			for _, d := range page {
				if ids = append(ids, d.ID()); len(d.Content) > 0 {
					t.Error("a list has content")
				}
			}
			if got := strings.Join(ids, " "); got != c.want || next != c.next {
				t.Errorf("%+v: %s, next %q", c.f, got, next)
			}
		}
	})
}

// What ships is active at once. What somebody stored under the same id, and what somebody retired, stays.
func TestWhatShipsTakesNoIdThatIsTaken(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		pushed(t, db, defined("model.stage", "v1", "mine"))
		ships := []broker.OperationDefinition{defined("gpu.bootstrap", "v1", "shipped"), defined("model.stage", "v1", "shipped")}
		for range 2 {
			ok(t, db.ShipOperationDefinitions(ctx, ships))
			if d := isDefined(t, db, "gpu.bootstrap@v1", "shipped", broker.DefinitionActive); !d.Shipped || d.CreatedBy != broker.System.Name {
				t.Errorf("%+v", d)
			}
			if d := isDefined(t, db, "model.stage@v1", "mine", broker.DefinitionDraft); d.Shipped {
				t.Errorf("%+v", d)
			}
		}
		ok(t, moves(db, "gpu.bootstrap@v1", broker.DefinitionDeprecated, ""))
		ok(t, db.ShipOperationDefinitions(ctx, ships))
		isDefined(t, db, "gpu.bootstrap@v1", "shipped", broker.DefinitionDeprecated)
		if n := onRecord(t, db, "ship"); n != 1 {
			t.Errorf("%d rows", n)
		}
	})
}

func TestABrokerKeepsSoManyDefinitions(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		pushed(t, db, defined("model.stage", "v1", "one"))
		ok(t, store.Exec(ctx, db, fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO operation_definitions (id, operation, version, summary, status, digest, content, shipped, created_at, created_by, changed_at, changed_by)
			SELECT 'model.stage@v' || i, 'model.stage', 'v' || i, '', 'draft', '', '{}', FALSE, 0, '', 0, '' FROM n`, broker.MaxOperationDefinitions)))
		_, _, err := db.PushOperationDefinition(ctx, admin, defined("gpu.bootstrap", "v1", "one"))
		refused(t, err, "operation_definition_limit")
		refused(t, db.ShipOperationDefinitions(ctx, []broker.OperationDefinition{defined("gpu.bootstrap", "v1", "one")}), "operation_definition_limit")
		pushed(t, db, defined("model.stage", "v1", "two"))
		isDefined(t, db, "model.stage@v1", "two", broker.DefinitionDraft)
	})
}

// Whoever activates names the content. A push at the same moment replaces the draft, or is refused: what is
// active is what was named, and never changes.
func TestAPushAndAnActivationAtOnceNeverActivateWhatNobodyNamed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		activated := 0
		for i := range 30 {
			version := fmt.Sprintf("v%d", i+1)
			id := "model.stage@" + version
			read := pushed(t, db, defined("model.stage", version, "read"))
			var pushes, activates error
			both := sync.WaitGroup{}
			both.Go(func() {
				_, _, pushes = db.PushOperationDefinition(ctx, admin, defined("model.stage", version, "other"))
			})
			both.Go(func() { activates = moves(db, id, broker.DefinitionActive, read.Digest) })
			both.Wait()
			switch {
			case activates == nil:
				activated++
				refused(t, pushes, "operation_definition_fixed")
				isDefined(t, db, id, "read", broker.DefinitionActive)
			default:
				refused(t, activates, "operation_definition_changed")
				ok(t, pushes)
				isDefined(t, db, id, "other", broker.DefinitionDraft)
			}
		}
		if n := onRecord(t, db, "activate"); n != activated {
			t.Errorf("%d were activated, with %d rows", activated, n)
		}
	})
}

// Two that push a new version at once: one draft, with the content of either.
func TestTwoPushesAtOnceMakeOneDefinition(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		all := sync.WaitGroup{}
		errs := make([]error, 8)
		for i := range errs {
			all.Go(func() {
				_, _, errs[i] = db.PushOperationDefinition(ctx, admin, defined("model.stage", "v1", fmt.Sprint(i)))
			})
		}
		all.Wait()
		for _, err := range errs {
			ok(t, err)
		}
		d := must(db.OperationDefinition(ctx, "model.stage@v1"))(t)
		isDefined(t, db, d.ID(), d.Summary, broker.DefinitionDraft)
		if n := onRecord(t, db, "push"); n != len(errs) {
			t.Errorf("%d rows", n)
		}
	})
}

const crashDefinitionsURL = "HOSTLER_STORE_CRASH_DEFINITIONS_URL"

// defineUntilKilled pushes definitions, replaces their content and activates them, and prints each one
// that is acknowledged as active.
func defineUntilKilled(url string) {
	db, err := store.Open(ctx, store.Options{URL: url})
	if err != nil {
		panic(err)
	}
	for i := 1; ; i++ {
		version := fmt.Sprintf("v%d", os.Getpid()*1000+i)
		for _, text := range []string{"one", "two"} {
			if _, _, err := db.PushOperationDefinition(ctx, admin, defined("model.stage", version, text)); err != nil {
				panic(err)
			}
		}
		d, err := db.MoveOperationDefinition(ctx, admin, "model.stage@"+version, broker.DefinitionActive, defined("model.stage", version, "two").Digest, "r")
		if err != nil {
			panic(err)
		}
		fmt.Println(d.ID())
	}
}

// After kill -9 at any moment the content of each definition is whole and has its digest, what was
// acknowledged as active is active, and the audit log has what happened and no more.
func TestAKillLeavesDefinitionsWhole(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			url := storetest.URL(t, engine)
			ok(t, storetest.Reopen(t, url, nil).Close())
			acknowledged := map[string]bool{}
			for round := range 3 {
				for _, id := range killAfter(t, crashDefinitionsURL+"="+url, 5+3*round) {
					acknowledged[id] = true
				}
			}
			db := storetest.Reopen(t, url, nil)
			defer db.Close() //nolint:errcheck // it only looked
			all, _, err := db.OperationDefinitions(ctx, store.OperationDefinitionFilter{})
			ok(t, err)
			active, two := 0, 0
			for _, d := range all {
				isDefined(t, db, d.ID(), d.Summary, d.Status)
				if d.Summary == "two" {
					two++
				}
				if d.Status == broker.DefinitionActive {
					active++
				} else if acknowledged[d.ID()] {
					t.Errorf("%s was acknowledged, and is %s", d.ID(), d.Status)
				}
				delete(acknowledged, d.ID())
			}
			if len(acknowledged) > 0 {
				t.Errorf("gone are %v", acknowledged)
			}
			if n := onRecord(t, db, "activate"); n != active {
				t.Errorf("%d are active, with %d rows", active, n)
			}
			if n := onRecord(t, db, "push"); n != len(all)+two {
				t.Errorf("%d contents were stored, with %d rows", len(all)+two, n)
			}
		})
	}
}
