package restore

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// MAAS's report counts by the state, in the backup, of the run that marked the machine.
func TestAMarkCountsByTheRunThatPutItThere(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		ctx := t.Context()
		var runs []chain.NewRun
		for _, id := range []string{"through", "under-way"} {
			runs = append(runs, chain.NewRun{Record: chain.Record{ID: id, Kind: "k", Site: "dc1", Status: chain.Pending, Stage: "s", Direction: chain.Forward, Attempt: 1, State: []byte(`{}`), DueAt: db.Now()}})
		}
		if err := db.Insert(ctx, runs, nil); err != nil {
			t.Fatal(err)
		}
		end := func(id string) {
			t.Helper()
			_, err := db.Act(ctx, chain.Order{ID: id, Action: chain.Cancel}, func(_ time.Time, r chain.Record) (chain.Change, error) {
				r.Status = chain.Cancelled
				return chain.Change{Record: r}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		end("through")
		clock.Advance(time.Minute)
		at := db.Now()
		clock.Advance(time.Minute)
		end("under-way") // by an operator, after the restore
		mark := func(node, run string) map[string]string {
			return map[string]string{"hostler-node": node, "hostler-run": run}
		}
		n := broker.Node{ID: "n-1", MAASSystemID: "abc", Status: broker.Active}
		for name, tt := range map[string]struct {
			machine    maas.Machine
			gone       bool
			word, code string
		}{
			"by one that had ended":             {maas.Machine{Status: maas.Deployed, Annotations: mark("n-1", "through")}, false, store.MachineSame, ""},
			"by one that ended since":           {maas.Machine{Status: maas.Deployed, Annotations: mark("n-1", "under-way")}, false, store.MachineNewer, "deployed_again"},
			"by one that is lost":               {maas.Machine{Status: maas.Deployed, Annotations: mark("n-1", "lost")}, false, store.MachineNewer, "deployed_again"},
			"for another node":                  {maas.Machine{Status: maas.Deployed, Annotations: mark("n-2", "through")}, false, store.MachineOther, "machine_not_its_own"},
			"no mark":                           {maas.Machine{Status: maas.Deployed}, false, store.MachineOther, "machine_not_its_own"},
			"a mark without a run":              {maas.Machine{Status: maas.Deployed, Annotations: mark("n-1", "")}, false, store.MachineOther, "machine_not_its_own"},
			"a machine that is being released":  {maas.Machine{Status: maas.Releasing, Annotations: mark("n-1", "through")}, false, store.MachineOther, "machine_not_its_own"},
			"a machine that MAAS does not know": {maas.Machine{}, true, store.MachineOther, "machine_not_its_own"},
		} {
			c := comparison{db: db, site: "dc1", at: at, ended: map[string]bool{}}
			if err := c.judge(ctx, n, tt.machine, !tt.gone, ""); err != nil {
				t.Fatal(err)
			}
			code := ""
			if len(c.found) > 0 {
				code = c.found[0].Code
			}
			if c.words[0].Word != tt.word || code != tt.code {
				t.Errorf("%s: %s and %q, want %s and %q", name, c.words[0].Word, code, tt.word, tt.code)
			}
		}
	})
}
