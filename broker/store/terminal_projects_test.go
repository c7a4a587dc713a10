package store_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// Many requests at once, at two brokers, get no more sessions than a project may have.
func TestAProjectHasSoManyTerminalsAtOnce(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			url := storetest.URL(t, engine)
			db := storetest.Reopen(t, url, nil)
			brokers := []*store.DB{db}
			if engine == "postgres" {
				brokers = append(brokers, storetest.Reopen(t, url, nil))
			}
			must(db.CreateOrganisation(ctx, admin, broker.Organisation{ID: "org-1", Name: "acme"}))(t)
			for _, id := range []string{"prj-1", "prj-2", "prj-ended"} {
				must(db.CreateProject(ctx, admin, broker.Project{ID: id, OrganisationID: "org-1", Name: id}))(t)
			}
			must(db.EndProject(ctx, admin, "prj-ended", ""))(t)
			n := newMember(t, db, "alpha")
			open := func(db *store.DB, id, project string) error {
				_, err := db.CreateTerminalSession(ctx, admin, broker.TerminalSession{ID: id, NodeID: n.ID, NodeEpoch: n.Epoch, AllocationID: "alc-1", ProjectID: project})
				return err
			}
			var work sync.WaitGroup
			var won atomic.Int64
			for i := range 2 * broker.MostTerminalsOfProject {
				work.Go(func() {
					switch err := open(brokers[i%len(brokers)], fmt.Sprintf("ts-%02d", i), "prj-1"); {
					case err == nil:
						won.Add(1)
					case broker.AsError(err).Code != "terminal_limit":
						t.Errorf("request %d: %v", i, err)
					}
				})
			}
			work.Wait()
			if won.Load() != broker.MostTerminalsOfProject {
				t.Errorf("%d sessions were opened, want %d", won.Load(), broker.MostTerminalsOfProject)
			}
			if audited(t, db, "terminal.refused", "terminal_limit") == 0 {
				t.Error("no refusal is on record")
			}
			ok(t, open(db, "ts-other", "prj-2"))
			ok(t, open(db, "ts-operator", ""))
			refused(t, open(db, "ts-x", "prj-ended"), "project_ended")
			refused(t, open(db, "ts-x", "prj-none"), "project_not_found")

			mine := must(db.Terminals(ctx, store.TerminalFilter{ProjectID: "prj-1", Limit: 100}))(t)
			if len(mine) != broker.MostTerminalsOfProject || mine[0].ProjectID != "prj-1" {
				t.Errorf("%d sessions are listed", len(mine))
			}
			if got := must(db.ProjectTerminal(ctx, "prj-1", mine[0].ID))(t); got.ID != mine[0].ID {
				t.Errorf("%+v", got)
			}
			for project, id := range map[string]string{"prj-2": mine[0].ID, "": "ts-operator", "prj-1": "ts-operator"} {
				refused(t, second(db.ProjectTerminal(ctx, project, id)), "terminal_session_not_found")
			}
			must(db.MoveTerminalSession(ctx, admin, mine[0].ID, store.TerminalMove{To: broker.TerminalClosed}))(t)
			ok(t, open(db, "ts-again", "prj-1"))
			refused(t, open(db, "ts-more", "prj-1"), "terminal_limit")
		})
	}
}

func second[T any](_ T, err error) error { return err }

// What is shown in terminals is recorded: within a day a project opens only so many sessions, and shows only so
// much.
func TestAProjectShowsSoMuchADay(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		must(db.CreateOrganisation(ctx, admin, broker.Organisation{ID: "org-1", Name: "acme"}))(t)
		for _, id := range []string{"prj-1", "prj-2"} {
			must(db.CreateProject(ctx, admin, broker.Project{ID: id, OrganisationID: "org-1", Name: id}))(t)
		}
		n := newMember(t, db, "alpha")
		open := func(id, project string) error {
			_, err := db.CreateTerminalSession(ctx, admin, broker.TerminalSession{ID: id, NodeID: n.ID, NodeEpoch: n.Epoch, AllocationID: "alc-1", ProjectID: project})
			return err
		}
		shows := func(session string, seq int, bytes int64) {
			ok(t, store.Exec(ctx, db, `INSERT INTO recording_blocks (session_id, seq, at, upto, lost, last, lines, prev, hash)
				VALUES ($1, $2, 0, $3, 0, FALSE, '', '', $4)`, session, seq, bytes, session+fmt.Sprint(seq)))
		}
		ok(t, open("ts-1", "prj-1"))
		ok(t, open("ts-2", "prj-1"))
		shows("ts-1", 0, 1<<30)
		shows("ts-1", 1, 2<<30-10) // the blocks before are in it
		shows("ts-2", 0, 9)
		ok(t, open("ts-3", "prj-1"))
		shows("ts-3", 0, 1)
		refused(t, open("ts-4", "prj-1"), "terminal_limit")
		ok(t, open("ts-other", "prj-2"))
		clock.Advance(24 * time.Hour)
		ok(t, open("ts-4", "prj-1"))

		clock.Advance(25 * time.Hour)
		const rest = `node_id, node_epoch, site, allocation_id, username, opened_by, reason, max_seconds, idle_seconds, detach_seconds,
			record_input, replica, end_code, exit_status, status_at, closed_at, project_id`
		ok(t, store.Exec(ctx, db, `WITH RECURSIVE i (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < $1)
			INSERT INTO terminal_sessions (id, status, created_at, `+rest+`)
			SELECT 'ts-many-' || i.n, 'closed', $2, `+rest+` FROM i, terminal_sessions WHERE id = 'ts-1'`,
			broker.MostTerminalsADay-1, db.Now().UnixMicro()))
		ok(t, open("ts-last", "prj-1"))
		refused(t, open("ts-more", "prj-1"), "terminal_limit")
	})
}
