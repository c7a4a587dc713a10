package expiry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/expiry"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/trust"
	"github.com/hostler/hostler/pki"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func in(days int) time.Time { return now.Add(time.Duration(days) * 24 * time.Hour) }

func sources(tokens ...broker.OperatorToken) expiry.Sources {
	return expiry.Sources{
		Keys: func() []trust.Expiry { return nil }, Now: func() time.Time { return now },
		Tokens: func(context.Context) ([]broker.OperatorToken, error) { return tokens, nil },
	}
}

func items(t *testing.T, s expiry.Sources) []expiry.Item {
	t.Helper()
	all, err := s.Items(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWhatEndsFirstComesFirstAndWhatNeverEndsLast(t *testing.T) {
	s := sources(
		broker.OperatorToken{Name: "forever"}, broker.OperatorToken{Name: "later", ExpiresAt: in(60)}, broker.OperatorToken{Name: "sooner", ExpiresAt: in(6)},
		broker.OperatorToken{Name: "revoked", ExpiresAt: in(1), RevokedAt: in(-1)}, broker.OperatorToken{Name: "yesterday", ExpiresAt: in(-1)}, broker.OperatorToken{Name: "long ago", ExpiresAt: in(-8)},
	)
	s.Keys = func() []trust.Expiry {
		return []trust.Expiry{{Use: pki.UseTask, ID: "k", At: in(29)}, {Use: trust.UseServer, ID: "s", At: in(2)}, {Use: pki.UseRoot, ID: "r", At: in(89)}, {Use: pki.UseStatement, ID: "t", At: in(31)}}
	}
	want := []struct {
		name string
		near bool
	}{{"yesterday", true}, {"s", false}, {"sooner", true}, {"k", true}, {"t", false}, {"later", false}, {"r", true}, {"forever", false}}
	got := items(t, s)
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i, w := range want {
		if got[i].Name != w.name || got[i].Near(now) != w.near || got[i].What == "" || got[i].Renew == "" {
			t.Errorf("%d: got %+v, near %v; want %+v", i, got[i], got[i].Near(now), w)
		}
	}
}

// A Vault without an answer is listed with its trouble, and does not hide the other items.
func TestAVaultThatDoesNotAnswerIsSaid(t *testing.T) {
	s := sources(broker.OperatorToken{Name: "later", ExpiresAt: in(60)})
	s.Login = func(context.Context) (secrets.Login, error) { return secrets.Login{}, errors.New("it is sealed") }
	got := items(t, s)
	if len(got) != 2 || got[1].What != expiry.VaultLogin || got[1].Trouble != "it is sealed" || !got[1].Near(now) {
		t.Errorf("got %+v", got)
	}
	s.Login = func(context.Context) (secrets.Login, error) {
		return secrets.Login{Ends: now.Add(13 * time.Minute), Soon: 12 * time.Minute}, nil
	}
	if got := items(t, s); got[0].What != expiry.VaultLogin || got[0].Near(now) || !got[0].Near(now.Add(2*time.Minute)) {
		t.Errorf("got %+v", got)
	}
}

// Every use of a key has a name and a way to be renewed.
func TestEveryKeyHasAWayToBeRenewed(t *testing.T) {
	for _, use := range []pki.KeyUse{pki.UseRoot, pki.UseTask, pki.UseTrust, pki.UseStatement, pki.UseRelease, trust.UseIssuing, trust.UseServer} {
		s := sources()
		s.Keys = func() []trust.Expiry { return []trust.Expiry{{Use: use, ID: "id", At: in(1)}} }
		if got := items(t, s)[0]; got.What == "" || got.Renew == "" || got.Soon == 0 {
			t.Errorf("of %s nothing is known: %+v", use, got)
		}
	}
}
