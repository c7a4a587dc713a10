package audit_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	_ "modernc.org/sqlite"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/audit"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
)

var ctx = context.Background()

// book is an audit log with its sealer, and a direct way to its tables that no broker would take.
type book struct {
	db        *store.DB
	raw       *sql.DB
	clock     *storetest.Clock
	authority *pkitest.Authority
	sealer    *audit.Sealer
	logged    *observer.ObservedLogs
}

func each(t *testing.T, f func(t *testing.T, b *book)) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			b := &book{clock: storetest.NewClock()}
			url := storetest.URL(t, engine)
			b.db = storetest.Reopen(t, url, b.clock.Now)
			driver, dsn := "pgx", url
			if engine == "sqlite" {
				driver, dsn = "sqlite", strings.TrimPrefix(url, "sqlite:")
				if !filepath.IsAbs(dsn) {
					t.Fatal(dsn)
				}
			}
			var err error
			if b.raw, err = sql.Open(driver, dsn); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = b.raw.Close() })
			b.authority = pkitest.NewAt(t, b.clock.Now())
			core, logged := observer.New(zap.InfoLevel)
			b.logged = logged
			b.sealer = &audit.Sealer{DB: b.db, Log: zap.New(core), Signer: func(context.Context) (pki.Signer, error) { return b.authority.Statement, nil }}
			f(t, b)
		})
	}
}

// write writes rows, each tenth with an origin.
func (b *book) write(t *testing.T, rows int) {
	t.Helper()
	for i := range rows {
		ctx := ctx
		if i%10 == 8 {
			ctx = store.WithOrigin(ctx, &store.Origin{Source: "203.0.113.9", UserAgent: "hostler/1"})
		}
		if err := b.db.Audit(ctx, broker.AuditEntry{Actor: "ada", Action: "node.label", Subject: fmt.Sprintf("node/n-%d", i), Before: []byte(`{}`), After: []byte(`{"a":"b"}`)}); err != nil {
			t.Fatal(err)
		}
	}
}

func (b *book) seal(t *testing.T) {
	t.Helper()
	if err := b.sealer.Turn(ctx); err != nil {
		t.Fatal(err)
	}
}

func (b *book) verify(t *testing.T) audit.Report {
	t.Helper()
	r, err := audit.Verify(ctx, b.db, b.authority.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (b *book) sql(t *testing.T, statements ...string) {
	t.Helper()
	for _, s := range statements {
		res, err := b.raw.ExecContext(ctx, s)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		if n, err := res.RowsAffected(); err == nil && n == 0 {
			t.Fatalf("%s changed nothing", s)
		}
	}
}

func TestWhatWasWrittenIsSealedAndVerified(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		b.write(t, 300)
		if r := b.verify(t); r.Fault != nil || r.Sealed != 0 || r.Unsealed != 300 {
			t.Fatalf("before sealing: %+v", r)
		}
		b.clock.Advance(time.Minute)
		b.seal(t)
		b.write(t, 7)
		r := b.verify(t)
		if r.Fault != nil || r.Sealed != 300 || r.Unsealed != 7 || r.Heads != 1 || r.LastHead.Position != 300 {
			t.Fatalf("after: %+v, last head %+v", r, r.LastHead)
		}
	})
}

func TestAHeadIsSignedEachMinuteAndAtEveryThousandRowsAndLogged(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		b.write(t, 1)
		b.seal(t) // the first head is due at once
		b.write(t, 2100)
		b.seal(t)
		heads := positions(t, b)
		if fmt.Sprint(heads) != "[1 1000 2000]" {
			t.Fatalf("heads at %v", heads)
		}
		b.clock.Advance(59 * time.Second)
		b.seal(t)
		if got := positions(t, b); len(got) != 3 {
			t.Fatalf("heads at %v before the minute was over", got)
		}
		b.clock.Advance(time.Second)
		b.seal(t)
		if got := positions(t, b); fmt.Sprint(got) != "[1 1000 2000 2101]" {
			t.Fatalf("heads at %v", got)
		}
		b.clock.Advance(time.Hour)
		b.seal(t)
		if got := positions(t, b); len(got) != 4 {
			t.Fatalf("heads at %v although nothing happened", got)
		}
		logs := b.logged.FilterMessage("audit head").All()
		if len(logs) != 4 {
			t.Fatalf("%d heads were logged, want 4", len(logs))
		}
		envelope := logs[3].ContextMap()["envelope"].(string)
		if head, err := audit.VerifyHead([]byte(envelope), b.authority.Bundle); err != nil || head.Position != 2101 || head.KeyID != b.authority.Statement.ID {
			t.Fatalf("the logged head: %+v, %v", head, err)
		}
	})
}

func positions(t *testing.T, b *book) []int64 {
	t.Helper()
	heads, err := b.db.AuditHeads(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var at []int64
	for _, h := range heads {
		at = append(at, h.Position)
	}
	return at
}

// Each attack is by somebody who may write to every table and has no key.
func TestWhoeverChangesTheLogIsSeen(t *testing.T) {
	const columns = `at, actor, action, subject, reason, before, after, correlation_id, code`
	for _, attack := range []struct {
		name     string
		with     []string
		code     string
		position int64
	}{
		{"a row changed", []string{`UPDATE audit_logs SET actor = 'eve' WHERE position = 5`}, audit.SealBroken, 5},
		{"a time changed", []string{`UPDATE audit_logs SET at = at + 1 WHERE position = 5`}, audit.SealBroken, 5},
		{"text moved between fields", []string{`UPDATE audit_logs SET actor = 'ad', action = 'anode.label' WHERE position = 5`}, audit.SealBroken, 5},
		{"a row deleted", []string{`DELETE FROM audit_logs WHERE position = 5`}, audit.SealMissing, 5},
		{"the first row deleted", []string{`DELETE FROM audit_logs WHERE position = 1`}, audit.SealMissing, 1},
		{"a row deleted and the gap closed", []string{`DELETE FROM audit_logs WHERE position = 20`, `UPDATE audit_tip SET position = 19`, `DELETE FROM audit_heads WHERE position = 20`}, audit.SealBroken, 19},
		{"the tail deleted", []string{`DELETE FROM audit_logs WHERE position > 15`}, audit.SealMissing, 16},
		{"the tail deleted and the tip set back", []string{`DELETE FROM audit_logs WHERE position > 15`, `UPDATE audit_tip SET position = 15, seal = (SELECT seal FROM audit_logs WHERE position = 15)`}, audit.SealMissing, 16},
		{"everything deleted", []string{`DELETE FROM audit_logs`}, audit.SealMissing, 1},
		{"a row put in between", []string{
			`UPDATE audit_logs SET position = -position - 1 WHERE position >= 5`, `UPDATE audit_logs SET position = -position WHERE position < 0`,
			`INSERT INTO audit_logs (` + columns + `, position, seal) SELECT ` + columns + `, 5, seal FROM audit_logs WHERE position = 4`,
		}, audit.SealBroken, 5},
		{"two rows swapped", []string{
			`UPDATE audit_logs SET position = -5 WHERE position = 5`, `UPDATE audit_logs SET position = 5 WHERE position = 6`, `UPDATE audit_logs SET position = 6 WHERE position = -5`,
		}, audit.SealBroken, 5},
		{"a row unsealed, to be sealed anew", []string{`UPDATE audit_logs SET position = 0, seal = '' WHERE position = 5`}, audit.SealMissing, 5},
		{"an origin changed", []string{`UPDATE audit_logs SET source = '192.0.2.1' WHERE position = 10`}, audit.SealBroken, 10},
		{"an origin removed", []string{`UPDATE audit_logs SET source = '', user_agent = '', site = '' WHERE position = 10`}, audit.SealBroken, 10},
		{"an origin given to a row without one", []string{`UPDATE audit_logs SET site = 'dc1' WHERE position = 5`}, audit.SealBroken, 5},
		{"an origin moved between fields", []string{`UPDATE audit_logs SET source = '', site = source WHERE position = 10`}, audit.SealBroken, 10},
		{"a head forged", []string{`UPDATE audit_heads SET envelope = (SELECT envelope FROM audit_heads WHERE position = 1) WHERE position = 20`}, audit.HeadMismatch, 20},
	} {
		t.Run(attack.name, func(t *testing.T) {
			each(t, func(t *testing.T, b *book) {
				b.write(t, 1)
				b.seal(t)
				b.clock.Advance(time.Minute)
				b.write(t, 19)
				b.seal(t)
				if r := b.verify(t); r.Fault != nil || r.Sealed != 20 || r.Heads != 2 {
					t.Fatalf("before the attack: %+v", r)
				}
				b.sql(t, attack.with...)
				r := b.verify(t)
				if r.Fault == nil {
					t.Fatalf("nothing was seen: %+v", r)
				}
				if r.Fault.Code != attack.code || r.Fault.Position != attack.position {
					t.Fatalf("seen: %+v, want %s at %d", r.Fault, attack.code, attack.position)
				}
			})
		})
	}
}

// An attacker who can write every table can compute seals too, but sign nothing.
// A broker of an earlier release seals each row at position 0, by the fields that it knows.
func TestARowWithAnOriginWaitsForABrokerThatSealsIt(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		b.write(t, 10)
		var old int
		if err := b.raw.QueryRowContext(ctx, `SELECT COUNT(*) FROM audit_logs WHERE position = 0`).Scan(&old); err != nil || old != 9 {
			t.Fatalf("an earlier release would seal %d rows of 10 (%v), and may seal 9", old, err)
		}
		if r := b.verify(t); r.Unsealed != 10 {
			t.Fatalf("%+v", r)
		}
		b.seal(t)
		if r := b.verify(t); r.Fault != nil || r.Sealed != 10 || r.Unsealed != 0 {
			t.Fatalf("%+v", r)
		}
	})
}

func TestTheSealOfARowWithoutAnOriginIsThatOfEarlierReleases(t *testing.T) {
	e := broker.AuditEntry{ID: 7, At: time.Unix(1700000000, 0), Actor: "ada", Action: "node.label", Subject: "node/n-1", Before: []byte(`{}`), After: []byte(`{"a":"b"}`), Code: "c"}
	const want = "bb74b25b45813ae30880b7d430cb32636ee901575864b296d4c6d88160df137e"
	if got := audit.Seal(store.AuditTip{Position: 4, Seal: "ab"}, e); got != want {
		t.Errorf("the seal is %s, and was %s", got, want)
	}
}

func TestAChainRebuiltWithoutTheKeyIsSeen(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		b.write(t, 20)
		b.seal(t)
		b.sql(t, `UPDATE audit_logs SET actor = 'eve' WHERE position = 5`,
			`UPDATE audit_logs SET position = 0, seal = ''`, `UPDATE audit_tip SET position = 0, seal = ''`)
		if _, _, err := b.db.SealAudit(ctx, 100, audit.Seal); err != nil {
			t.Fatal(err)
		}
		r := b.verify(t)
		if r.Fault == nil || r.Fault.Code != audit.HeadMismatch || r.Fault.Position != 20 {
			t.Fatalf("seen: %+v", r.Fault)
		}
	})
}

// Without heads a rebuilt chain is valid, so Verify requires the heads that always exist.
func TestAChainRebuiltWithoutItsHeadsIsSeen(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		b.write(t, 1001)
		b.seal(t)
		b.sql(t, `DELETE FROM audit_heads`, `UPDATE audit_logs SET actor = 'eve' WHERE position = 5`,
			`UPDATE audit_logs SET position = 0, seal = ''`, `UPDATE audit_tip SET position = 0, seal = ''`)
		if _, _, err := b.db.SealAudit(ctx, 2000, audit.Seal); err != nil {
			t.Fatal(err)
		}
		r := b.verify(t)
		if r.Fault == nil || r.Fault.Code != audit.HeadMissing || r.Fault.Position != 1000 {
			t.Fatalf("seen: %+v", r.Fault)
		}
	})
}

func TestAHeadThatACrashPreventedIsSignedBeforeTheChainGoesOn(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		b.write(t, 1005)
		if sealed, _, err := b.db.SealAudit(ctx, 1000, audit.Seal); err != nil || sealed != 1000 {
			t.Fatal(sealed, err) // and there the broker dies
		}
		if r := b.verify(t); r.Fault != nil {
			t.Fatalf("before the next turn: %+v", r.Fault)
		}
		b.seal(t)
		r := b.verify(t)
		heads, err := b.db.AuditHeads(ctx)
		if err != nil || r.Fault != nil || r.Sealed != 1005 || len(heads) == 0 || heads[0].Position != 1000 {
			t.Fatalf("%v, %+v, heads %+v", err, r, heads)
		}
	})
}

func TestAHeadByAnotherKeyIsNotBelieved(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		b.authority.Statement = pkitest.NewSigner(t)
		b.write(t, 3)
		b.seal(t)
		r := b.verify(t)
		if r.Fault == nil || r.Fault.Code != audit.HeadBroken {
			t.Fatalf("seen: %+v", r.Fault)
		}
	})
}

func TestSealingGoesOnWhereACrashLeftIt(t *testing.T) {
	each(t, func(t *testing.T, b *book) {
		b.write(t, 10)
		if _, _, err := b.db.SealAudit(ctx, 4, audit.Seal); err != nil {
			t.Fatal(err)
		}
		b.seal(t)
		if r := b.verify(t); r.Fault != nil || r.Sealed != 10 || r.Unsealed != 0 {
			t.Fatalf("%+v", r)
		}
	})
}
