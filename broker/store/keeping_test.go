package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestOperatorTokensAreKeptByHashAndRevokedAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		o := broker.OperatorToken{Name: "bob", Role: broker.RoleOperator, Sites: []string{"dc1"}, ExpiresAt: clock.Now().Add(time.Hour)}
		ok(t, db.CreateOperatorToken(ctx, admin, o, "hash-bob"))
		refused(t, db.CreateOperatorToken(ctx, admin, o, "hash-2"), "token_name_taken")
		got := must(db.OperatorByHash(ctx, "hash-bob"))(t)
		if got.Name != "bob" || got.Role != broker.RoleOperator || len(got.Sites) != 1 || !got.ExpiresAt.Equal(o.ExpiresAt) || !got.RevokedAt.IsZero() {
			t.Fatalf("%+v", got)
		}
		_, err := db.OperatorByHash(ctx, "hash-eve")
		refused(t, err, "token_unknown")
		hints := db.Hints(t.Context())
		ok(t, db.RevokeOperatorToken(ctx, admin, "bob", "left"))
		if h := <-hints; h != (store.Hint{Kind: store.HintToken, ID: "bob"}) {
			t.Fatalf("hint %+v", h)
		}
		clock.Advance(time.Minute)
		ok(t, db.RevokeOperatorToken(ctx, admin, "bob", "again"))
		if got := must(db.OperatorTokens(ctx))(t); len(got) != 1 || !got[0].RevokedAt.Equal(clock.Now().Add(-time.Minute)) {
			t.Fatalf("%+v", got)
		}
		refused(t, db.CreateOperatorToken(ctx, admin, o, "hash-3"), "token_name_taken") // an actor's name is never reused
		refused(t, db.RevokeOperatorToken(ctx, admin, "eve", ""), "token_not_found")
	})
}

func TestTrustBundlesOnlyGrow(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		if v, _, err := db.LatestBundle(ctx); v != 0 || err != nil {
			t.Fatalf("version %d, %v", v, err)
		}
		ok(t, db.SaveBundle(ctx, admin, 1, []byte("one"), "first"))
		ok(t, db.SaveBundle(ctx, admin, 1, []byte("one"), "once more"))
		refused(t, db.SaveBundle(ctx, admin, 1, []byte("other"), ""), "trust_version_not_newer")
		ok(t, db.SaveBundle(ctx, admin, 3, []byte("three"), ""))
		refused(t, db.SaveBundle(ctx, admin, 2, []byte("two"), ""), "trust_version_not_newer")
		if v, raw, err := db.LatestBundle(ctx); v != 3 || string(raw) != "three" || err != nil {
			t.Fatalf("version %d %s, %v", v, raw, err)
		}
		_, err := db.Bundle(ctx, 2)
		refused(t, err, "trust_version_unknown")
	})
}

func TestABundleKnowsWhoHasNotConfirmedIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		a, b := newMember(t, db, "a"), newMember(t, db, "b")
		newNode(t, db, "never-enrolled")
		ok(t, db.SaveBundle(ctx, admin, 1, []byte("one"), ""))
		ok(t, db.SaveBundle(ctx, admin, 2, []byte("two"), ""))
		ok(t, db.ConfirmTrust(ctx, a.ID, 2))
		ok(t, db.ConfirmTrust(ctx, a.ID, 1)) // never back
		ok(t, db.ConfirmTrust(ctx, b.ID, 7)) // never issued
		left := must(db.TrustStragglers(ctx, 2))(t)
		if len(left) != 1 || left[0].ID != b.ID || must(db.Node(ctx, a.ID))(t).TrustVersion != 2 {
			t.Fatalf("left %+v", left)
		}
		k := enqueue(t, db, a, taskcatalog.LaneExclusive)
		if got := must(db.OpenTasksByKey(ctx))(t); got[k.KeyID] != 1 {
			t.Fatalf("open by key %v", got)
		}
	})
}

func TestAPackageComesBackAsItWas(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		for _, size := range []int{1, 1 << 20, 1<<20 + 1, 5<<20 + 12345} {
			data := make([]byte, size)
			rand.NewChaCha8([32]byte{byte(size)}).Read(data) //nolint:errcheck // never fails
			p := must(db.PutPackage(ctx, admin, store.Package{Name: "agent.deb", Version: fmt.Sprint(size)}, iotest.HalfReader(bytes.NewReader(data))))(t)
			same := must(db.PutPackage(ctx, admin, store.Package{Name: "again.deb", Digest: p.Digest}, bytes.NewReader(data)))(t)
			if same != p || p.Size != int64(size) || p.PublishedBy != "ada" {
				t.Fatalf("%+v, then %+v", p, same)
			}
			_, r, err := db.OpenPackage(ctx, p.Digest)
			ok(t, err)
			if got := must(io.ReadAll(r))(t); !bytes.Equal(got, data) {
				t.Fatalf("%d bytes came back, not as they were", len(got))
			}
			must(r.Seek(int64(size/2), io.SeekStart))(t)
			if got := must(io.ReadAll(r))(t); !bytes.Equal(got, data[size/2:]) {
				t.Fatal("half came back, not as it was")
			}
		}
		if got := must(db.Packages(ctx))(t); len(got) != 4 {
			t.Fatalf("%d packages", len(got))
		}
		_, _, err := db.OpenPackage(ctx, "sha256:none")
		refused(t, err, "package_not_found")
	})
}

func TestAPackageThatIsNotWholeIsNotThere(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		data := bytes.Repeat([]byte("x"), 3<<20)
		_, err := db.PutPackage(ctx, admin, store.Package{Name: "a"}, io.MultiReader(bytes.NewReader(data), iotest.ErrReader(errors.New("cable pulled"))))
		if err == nil {
			t.Fatal("it was taken")
		}
		_, err = db.PutPackage(ctx, admin, store.Package{Name: "a", Digest: "sha256:other"}, bytes.NewReader(data))
		refused(t, err, "digest_mismatch")
		_, err = db.PutPackage(ctx, admin, store.Package{Name: "a"}, bytes.NewReader(nil))
		refused(t, err, "package_empty")
		if got := must(db.Packages(ctx))(t); len(got) != 0 {
			t.Fatalf("%+v", got)
		}
	})
}

// A task may ask for a secret a few times, with a longer wait each time.
func TestATaskAsksForASecretAFewTimes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "one")
		k := enqueue(t, db, n, taskcatalog.LaneExclusive)
		begin := func(attempt int) error {
			return db.BeginMint(ctx, store.Mint{NodeID: n.ID, Epoch: n.Epoch, TaskID: k.ID, Attempt: attempt, Type: "oci_pull"})
		}
		for range 20 { // a refused request is not counted
			refused(t, begin(1), "lease_lost")
		}
		claim(t, db, n, k.ID)
		for i := range 15 {
			ok(t, begin(1))
			pause := min(time.Second<<i, time.Minute)
			for range 3 { // a request that is too soon is refused, and does not lengthen the wait
				err := begin(1)
				if got := broker.AsError(err); got.Code == "mint_too_soon" && got.RetryAfter == pause {
					continue
				}
				t.Fatalf("try %d, at once: %v", i+1, err)
			}
			for range 2 {
				clock.Advance(pause / 2)
				_, _, err := db.RecordProgress(ctx, n.ID, k.ID, 1, broker.Progress{})
				ok(t, err)
			}
		}
		ok(t, begin(1))
		refused(t, begin(1), "mint_tries_spent")
		clock.Advance(time.Minute)
		must(db.SweepTasks(ctx))(t)
		clock.Advance(time.Second)
		must(db.SweepTasks(ctx))(t)
		claim(t, db, n, k.ID)
		refused(t, begin(2), "mint_tries_spent")
		other := enqueue(t, db, n, taskcatalog.LaneConcurrent)
		claim(t, db, n, other.ID)
		ok(t, db.BeginMint(ctx, store.Mint{NodeID: n.ID, Epoch: n.Epoch, TaskID: other.ID, Attempt: 1, Type: "oci_pull"}))
	})
}

// A step asks again when its credential has expired: each request gets one, and the same request after a lost
// answer gets it again. The number is bounded.
func TestAStepOfAnOperationAsksAgain(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "one")
		k := enqueue(t, db, n, taskcatalog.LaneExclusive)
		claim(t, db, n, k.ID)
		tries := 0
		mint := func(credentialType, step, request string) error {
			tries++
			m := store.Mint{NodeID: n.ID, Epoch: n.Epoch, TaskID: k.ID, Attempt: 1, Type: credentialType, Step: step, Request: request}
			if err := db.BeginMint(ctx, m); err != nil {
				return err
			}
			return db.RecordMint(ctx, m, "read models/a.bin")
		}
		ok(t, mint("s3_read", "key", "r1"))
		ok(t, mint("s3_read", "key", "r1"))
		ok(t, mint("s3_read", "key", "r2"))
		ok(t, mint("s3_read", "other", "r1"))
		ok(t, mint("cluster_join_token", "join", "r3"))
		refused(t, mint("cluster_join_token", "join", "r3"), "already_minted") // consumed by its use
		refused(t, mint("cluster_join_token", "join", "r4"), "already_minted") // by whatever request
		ok(t, mint("cluster_membership", "verify", "r5"))
		ok(t, mint("cluster_membership", "verify", "r5"))
		ok(t, mint("cluster_leave", "leave", "r6"))
		ok(t, mint("cluster_leave", "leave", "r6"))
		rows := must(db.ListAudit(ctx, store.AuditFilter{Subject: "task/" + k.ID, Newest: true}))(t)
		if got := string(rows[5].After); !strings.Contains(got, `"step":"join"`) || !strings.Contains(got, "models/a.bin") || strings.Contains(got, "r3") {
			t.Errorf("the audit log says %s", got)
		}
		for tries <= 64 {
			if err := mint("s3_read", "key", fmt.Sprint("q", tries)); err != nil {
				t.Fatalf("try %d: %v", tries, err)
			}
		}
		for tries < 1000 {
			err := mint("s3_read", "key", fmt.Sprint("q", tries))
			switch broker.AsError(err).Code {
			case "mint_too_soon":
				for range 2 {
					clock.Advance(30 * time.Second)
					_, _, err := db.RecordProgress(ctx, n.ID, k.ID, 1, broker.Progress{})
					ok(t, err)
				}
			case "mint_tries_spent":
				return
			default:
				ok(t, err)
			}
		}
		t.Error("a node may ask for ever")
	})
}

func TestASecretIsMintedOnceWhileTheLeaseHolds(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n, eve := newMember(t, db, "one"), newMember(t, db, "eve")
		k := enqueue(t, db, n, taskcatalog.LaneExclusive)
		mint := func(node broker.Node, attempt int, typ string) error {
			return db.RecordMint(ctx, store.Mint{NodeID: node.ID, Epoch: node.Epoch, TaskID: k.ID, Attempt: attempt, Type: typ}, "what it opens")
		}
		may := func(node broker.Node, attempt int) error {
			return db.BeginMint(ctx, store.Mint{NodeID: node.ID, Epoch: node.Epoch, TaskID: k.ID, Attempt: attempt, Type: "oci_pull"})
		}
		refused(t, may(n, 1), "lease_lost")
		refused(t, mint(n, 1, "oci_pull"), "lease_lost") // not delivered yet
		claim(t, db, n, k.ID)
		refused(t, mint(eve, 1, "oci_pull"), "task_not_found")
		refused(t, may(eve, 1), "task_not_found")
		refused(t, mint(n, 2, "oci_pull"), "lease_lost")
		ok(t, may(n, 1)) // permission alone is no mint
		ok(t, mint(n, 1, "oci_pull"))
		refused(t, mint(n, 1, "oci_pull"), "already_minted")
		refused(t, may(n, 1), "already_minted")
		ok(t, mint(n, 1, "terminal_session"))
		clock.Advance(time.Minute)
		refused(t, mint(n, 1, "third"), "lease_lost")
		must(db.SweepTasks(ctx))(t)
		clock.Advance(time.Second)
		must(db.SweepTasks(ctx))(t)
		claim(t, db, n, k.ID)
		ok(t, mint(n, 2, "oci_pull"))                                                                                                                 // once per attempt
		if granted, refused := audited(t, db, "credential.mint", ""), audited(t, db, "credential.mint", "lease_lost"); granted != 7 || refused != 2 { // the second within a minute is counted with the first
			t.Fatalf("audited %d, of them %d lease_lost", granted, refused)
		}
	})
}

func TestACleanPolicyIsReplacedAndAudited(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		if p := must(db.CleanPolicy(ctx, "dc1"))(t); p != nil {
			t.Fatalf("%s", p)
		}
		for _, p := range []string{`{"known_users":["a"]}`, `{"known_users":["b"]}`} {
			ok(t, db.SetCleanPolicy(ctx, admin, "dc1", []byte(p), "why"))
			if got := must(db.CleanPolicy(ctx, "dc1"))(t); string(got) != p {
				t.Fatalf("%s", got)
			}
		}
		rows := must(db.ListAudit(ctx, store.AuditFilter{Subject: "site/dc1", Newest: true}))(t)
		if len(rows) != 2 || string(rows[0].Before) != `{"known_users":["a"]}` || rows[0].Reason != "why" {
			t.Fatalf("%+v", rows)
		}
	})
}

func TestTheAuditLogIsReadInPages(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		request := store.WithCorrelation(ctx, "c-9")
		for i := range 5 {
			ok(t, db.Audit(request, broker.AuditEntry{Actor: "ada", Action: "a", Subject: fmt.Sprint("s/", i)}))
			clock.Advance(time.Second)
		}
		all := must(db.ListAudit(ctx, store.AuditFilter{CorrelationID: "c-9"}))(t)
		if len(all) != 5 {
			t.Fatalf("%d rows", len(all))
		}
		two := must(db.ListAudit(ctx, store.AuditFilter{After: all[1].ID, Limit: 2}))(t)
		if len(two) != 2 || two[0].ID != all[2].ID {
			t.Fatalf("%+v", two)
		}
		newest := must(db.ListAudit(ctx, store.AuditFilter{After: all[3].ID, Limit: 2, Newest: true}))(t)
		if len(newest) != 2 || newest[0].ID != all[2].ID {
			t.Fatalf("%+v", newest)
		}
		between := must(db.ListAudit(ctx, store.AuditFilter{From: all[1].At, To: all[3].At}))(t)
		if len(between) != 2 {
			t.Fatalf("%+v", between)
		}
	})
}

func TestTasksAreListedNewestFirstInPages(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		a, b := newMember(t, db, "a"), newMember(t, db, "b")
		var want []string
		for i := range 7 {
			n := []broker.Node{a, b}[i%2]
			want = append([]string{enqueue(t, db, n, taskcatalog.LaneConcurrent).ID}, want...)
		}
		var got []string
		f := store.TaskFilter{Limit: 3}
		for {
			page, next, err := db.ListTasks(ctx, f)
			ok(t, err)
			for _, k := range page {
				got = append(got, k.ID)
			}
			if next == "" {
				break
			}
			f.After = next
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%v, want %v", got, want)
		}
		page, _, err := db.ListTasks(ctx, store.TaskFilter{NodeID: a.ID, Statuses: []broker.TaskStatus{broker.TaskQueued}, Type: "node.drain"})
		ok(t, err)
		if len(page) != 4 {
			t.Fatalf("%d of a", len(page))
		}
		if page, _, err = db.ListTasks(ctx, store.TaskFilter{Sites: []string{"dc1"}}); err != nil || len(page) != 0 {
			t.Fatalf("%d of another site, %v", len(page), err)
		}
	})
}

// A request whose answer was lost is answered again, if its secret only permits reading the content
// that the node must fetch. A request under another id, or without an id, is another request.
func TestARequestForASecretIsAnsweredAgainUnderItsName(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n, eve := newMember(t, db, "one"), newMember(t, db, "eve")
		k := enqueue(t, db, n, taskcatalog.LaneExclusive)
		claim(t, db, n, k.ID)
		m := store.Mint{NodeID: n.ID, Epoch: n.Epoch, TaskID: k.ID, Attempt: 1, Type: taskcatalog.CredentialOCIPull, Request: "a"}
		both := func(m store.Mint, code string) {
			t.Helper()
			for _, ask := range []func() error{func() error { return db.BeginMint(ctx, m) }, func() error { return db.RecordMint(ctx, m, "what it opens") }} {
				if err := ask(); code == "" {
					ok(t, err)
				} else {
					refused(t, err, code)
				}
			}
			clock.Advance(2 * time.Second) // in total less than a lease
		}
		both(m, "")
		both(m, "")
		other, none, theirs, later := m, m, m, m
		other.Request, none.Request, theirs.NodeID, theirs.Epoch, later.Attempt = "b", "", eve.ID, eve.Epoch, 2
		both(other, "already_minted")
		both(none, "already_minted")
		both(theirs, "task_not_found")
		both(later, "lease_lost")
		for _, typ := range []string{taskcatalog.CredentialMAASMachineToken, "terminal_session"} {
			once := m
			once.Type = typ
			ok(t, db.RecordMint(ctx, once, "what it opens"))
			refused(t, db.RecordMint(ctx, once, "what it opens"), "already_minted")
			refused(t, db.BeginMint(ctx, once), "already_minted")
		}
		ok(t, db.RecordMint(ctx, m, "what it opens"))
		clock.Advance(time.Minute)
		both(m, "lease_lost")
		again := 0
		for _, row := range must(db.ListAudit(ctx, store.AuditFilter{Action: "credential.mint"}))(t) {
			if strings.Contains(string(row.After), `"again":true`) {
				again++
			}
		}
		if again != 2 {
			t.Errorf("the audit log tells of %d answers that were made again", again)
		}
	})
}
