package store_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A decision belongs to a single run, is stored once with its first author, and is accepted only
// while that run may still come to a certificate.
func TestADowngradeIsAcceptedInARunThatHasNotEnded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		for id, status := range map[string]chain.Status{"r-1": chain.FailedManual, "r-2": chain.Cancelled} {
			ok(t, db.Insert(ctx, []chain.NewRun{{Record: chain.Record{ID: id, Kind: "k", Site: "dc1", Status: status, Direction: chain.Forward, State: []byte("{}")}}}, nil))
		}
		word := store.AcceptedDowngrade{RunID: "r-1", NodeID: n.ID, CertificateID: "r-1.1", Device: "S5X", Asked: "ata_secure_erase", Did: "overwrite", Reason: "same project"}
		first := must(db.AcceptDowngrade(ctx, broker.Actor{Name: "ada"}, word))(t)
		clock.Advance(time.Minute)
		again := word
		again.Reason = "another"
		if kept := must(db.AcceptDowngrade(ctx, broker.Actor{Name: "bo"}, again))(t); kept != first || kept.By != "ada" || kept.Reason != "same project" {
			t.Errorf("the first word is %+v, and then %+v", first, kept)
		}
		for _, run := range []string{"r-2", "r-none"} {
			over := word
			over.RunID = run
			_, err := db.AcceptDowngrade(ctx, admin, over)
			refused(t, err, "run_ended")
		}
		if all := must(db.AcceptedDowngrades(ctx, "r-1"))(t); len(all) != 1 || all[0] != first {
			t.Errorf("kept %+v", all)
		}
		if all := must(db.AcceptedDowngrades(ctx, "r-2"))(t); len(all) != 0 {
			t.Errorf("of another run %+v", all)
		}
		if got := audited(t, db, "certificate.accept_downgrade", ""); got != 1 {
			t.Errorf("%d audit rows of one word", got)
		}
	})
}
