package expiry

import (
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/trust"
	"github.com/hostler/hostler/pki"
)

// Some values of Item.What; ItemKinds returns all of them.
const (
	ServerCertificate = "server certificate"
	OperatorToken     = "operator token"
	VaultLogin        = "Vault login"
)

// Item is a key, certificate, token or login of a broker, with its end.
type Item struct {
	What    string
	Name    string        // id of a key or certificate, name of a token
	At      time.Time     // zero: no known end
	Soon    time.Duration // how long before the end the item should be renewed
	Renew   string        // the command or action that renews the item
	Trouble string        // why the end could not be determined; empty: no trouble
}

// Near reports whether it is time to renew the item, or too late.
func (i Item) Near(now time.Time) bool {
	return i.Trouble != "" || !i.At.IsZero() && i.At.Before(now.Add(i.Soon))
}

// forgotten is the time for which an operator's expired token stays in the list.
const forgotten = 7 * 24 * time.Hour

// keys gives for each use its name, how early to renew, and how.
var keys = map[pki.KeyUse]struct {
	what  string
	soon  time.Duration
	renew string
}{
	pki.UseRoot:      {"root certificate", 90 * 24 * time.Hour, "hostler trust rotate --use root --reason R"},
	trust.UseIssuing: {"issuing CA", 90 * 24 * time.Hour, "hostler trust rotate --use root --reason R"},
	trust.UseServer:  {ServerCertificate, 24 * time.Hour, "renewed automatically at two thirds of its life: see the broker's log"},
	pki.UseTask:      {"task key", 30 * 24 * time.Hour, "hostler trust rotate --use task --reason R"},
	pki.UseTrust:     {"trust key", 30 * 24 * time.Hour, "hostler trust rotate --use trust --reason R"},
	pki.UseStatement: {"statement key", 30 * 24 * time.Hour, "hostler trust rotate --use statement --reason R"},
	pki.UseRelease:   {"release key", 30 * 24 * time.Hour, "hostler trust add-release-key FILE, then hostler trust retire-release-key ID"},
}

// ItemKinds returns all values of Item.What, sorted.
func ItemKinds() []string {
	all := []string{OperatorToken, VaultLogin}
	for _, k := range keys {
		all = append(all, k.what)
	}
	slices.Sort(all)
	return all
}

// Sources are the places where a broker looks for items.
type Sources struct {
	Keys   func() []trust.Expiry
	Tokens func(context.Context) ([]broker.OperatorToken, error)
	Login  func(context.Context) (secrets.Login, error) // nil: secrets are kept in files
	Now    func() time.Time
}

// Items returns the items, ordered by end. A Vault without an answer is an item with its trouble.
func (s Sources) Items(ctx context.Context) ([]Item, error) {
	var all []Item
	for _, k := range s.Keys() {
		of := keys[k.Use]
		all = append(all, Item{What: of.what, Name: k.ID, At: k.At, Soon: of.soon, Renew: of.renew})
	}
	tokens, err := s.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range tokens {
		if t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || t.ExpiresAt.After(s.Now().Add(-forgotten))) {
			all = append(all, Item{
				What: OperatorToken, Name: t.Name, At: t.ExpiresAt, Soon: forgotten,
				Renew: "hostler token create, then hostler token revoke " + t.Name,
			})
		}
	}
	if s.Login != nil {
		i := Item{What: VaultLogin, Renew: "put a new token, or secret id, into the file that the broker's config names"}
		login, err := s.Login(ctx)
		if err != nil {
			i.Trouble = err.Error()
		}
		i.At, i.Soon = login.Ends, login.Soon
		all = append(all, i)
	}
	slices.SortStableFunc(all, func(a, b Item) int { return a.end().Compare(b.end()) })
	return all, nil
}

// never is later than any end.
var never = time.Unix(1<<40, 0)

func (i Item) end() time.Time {
	if i.At.IsZero() {
		return never
	}
	return i.At
}
