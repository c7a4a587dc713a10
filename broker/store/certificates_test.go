package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// renewed records a renewal of a node's newest certificate, and returns its serial.
func renewed(t testing.TB, db *store.DB, nodeID, serial, key string, from time.Time) string {
	t.Helper()
	all := must(db.Certificates(ctx, nodeID))(t)
	n := must(db.Node(ctx, nodeID))(t)
	must(db.RecordRenewal(ctx, store.Renewal{
		NodeID: nodeID, Epoch: n.Epoch, OldSerial: all[len(all)-1].Serial, PublicKeyDigest: key, TrustVersion: n.TrustVersion,
		Cert:   store.IssuedCert{Serial: serial, PEM: "pem", PublicKey: []byte(key), NotBefore: from, NotAfter: from.Add(24 * time.Hour)},
		Report: store.NodeReport{AgentVersion: n.AgentVersion, TaskTypes: n.TaskTypes, Digest: n.ReportDigest},
	}))(t)
	return serial
}

func TestOfEachKeyTheNewestCertificateIsKept(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		one, two := newMember(t, db, "one"), newMember(t, db, "two")
		var kept []string
		for day := range 10 {
			clock.Advance(24 * time.Hour)
			key := "key-one"
			if day >= 6 {
				key = "key-rotated"
			}
			serial := renewed(t, db, one.ID, fmt.Sprintf("aa%02d", day), key, clock.Now())
			if day == 5 || day >= 8 { // the last of the first key; those that expire later
				kept = append(kept, serial)
			}
		}
		before := clock.Now().Add(-24*time.Hour + time.Minute)
		for round, want := range []int64{4, 4, 0} { // of eleven, with the enrolment's certificate
			if got := must(db.DropCertificates(ctx, before, 4))(t); got != want {
				t.Fatalf("round %d removed %d, want %d", round, got, want)
			}
		}
		var left []string
		for _, c := range must(db.Certificates(ctx, one.ID))(t) {
			left = append(left, c.Serial)
		}
		if !slices.Equal(left, kept) {
			t.Errorf("left are %v, want %v", left, kept)
		}
		if n := len(must(db.Certificates(ctx, two.ID))(t)); n != 1 {
			t.Errorf("of the node that did not renew %d are left", n)
		}
		if n := audited(t, db, "certificate.dropped", ""); n != 2 {
			t.Errorf("%d rows in the audit log", n)
		}
		// A node that was away meanwhile renews with its old certificate.
		renewed(t, db, two.ID, "bb01", "key-two", clock.Now())
	})
}
