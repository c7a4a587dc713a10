package nats_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hostler/hostler/broker/store/storetest"
)

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// guarded is a server that takes users of one account. It returns a user's credentials, and the key
// in them.
func guarded(t *testing.T) (change func(*server.Options), creds []byte, seed string) {
	t.Helper()
	operator, account, system, user := must(nkeys.CreateOperator())(t), must(nkeys.CreateAccount())(t), must(nkeys.CreateAccount())(t), must(nkeys.CreateUser())(t)
	public := func(k nkeys.KeyPair) string { return must(k.PublicKey())(t) }
	resolver := &server.MemAccResolver{}
	for _, k := range []nkeys.KeyPair{account, system} {
		claims := jwt.NewAccountClaims(public(k))
		if k == account {
			claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
		}
		if err := resolver.Store(public(k), must(claims.Encode(operator))(t)); err != nil {
			t.Fatal(err)
		}
	}
	of := must(jwt.DecodeOperatorClaims(must(jwt.NewOperatorClaims(public(operator)).Encode(operator))(t)))(t)
	mine := jwt.NewUserClaims(public(user))
	key := must(user.Seed())(t)
	creds = must(jwt.FormatUserConfig(must(mine.Encode(account))(t), key))(t)
	return func(o *server.Options) {
		o.TrustedOperators, o.AccountResolver, o.SystemAccount = []*jwt.OperatorClaims{of}, resolver, public(system)
	}, creds, string(key)
}

// The credentials are read anew at each connection. Without good ones, or with a file that others may
// read, nothing is sent, and the store says why. Nothing repeats them.
func TestCredentialsAreReadFromAFileOfTheBrokersOwn(t *testing.T) {
	change, creds, seed := guarded(t)
	p := newPeer(t, change)
	js := p.admin(t, natsio.UserCredentialBytes(creds))
	newStream(t, js)
	db := storetest.Open(t, "sqlite", nil)
	happen(t, db, "one", 3)
	core, logs := observer.New(zap.DebugLevel)
	r := relayOf(db, feeding(t, db), p)
	r.Log = zap.New(core)
	r.Config.Creds = filepath.Join(t.TempDir(), "hostler.creds")
	running(t, r.Run)
	told := func(code string) {
		t.Helper()
		eventually(t, code, func() bool { return lag(t, db).Code == code })
		if l := lag(t, db); strings.Contains(l.Trouble, seed) || l.Position != 0 {
			t.Errorf("%+v", l)
		}
	}
	told("nats_config_unusable") // there is no file
	put := func(text []byte, mode os.FileMode) {
		t.Helper()
		next := r.Config.Creds + ".next"
		if err := os.WriteFile(next, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(next, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, r.Config.Creds); err != nil {
			t.Fatal(err)
		}
	}
	_, foreign, _ := guarded(t)
	put(foreign, 0o600)
	told("nats_login_failed")
	put(creds, 0o644)
	told("nats_config_unusable")
	if !strings.Contains(lag(t, db).Trouble, "chmod 640") {
		t.Errorf("%+v", lag(t, db))
	}
	put(creds, 0o640)
	inOrder(t, js, 3)
	for _, line := range logs.All() {
		text := line.Message
		for _, f := range line.Context {
			text += " " + f.String
			if err, is := f.Interface.(error); is {
				text += " " + err.Error()
			}
		}
		if strings.Contains(text, seed) || strings.Contains(text, "BEGIN") {
			t.Errorf("the log says %q", text)
		}
	}
}

// A server with a certificate that the broker does not know gets nothing, nor does one without TLS
// where the address asks for it.
func TestAServerWithoutTheRightCertificateGetsNothing(t *testing.T) {
	web := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate, of 127.0.0.1
	defer web.Close()
	p := newPeer(t, func(o *server.Options) {
		o.TLSConfig = &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}
	})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	js := p.admin(t, natsio.RootCAs(ca))
	newStream(t, js)
	db := storetest.Open(t, "sqlite", nil)
	happen(t, db, "one", 3)
	f := feeding(t, db)
	r := relayOf(db, f, p)
	r.Config.URL = strings.Replace(p.url(), "nats://", "tls://", 1)
	stop := running(t, r.Run)
	eventually(t, "the refusal", func() bool {
		l := lag(t, db)
		return l.Code == "nats_unreachable" && strings.Contains(l.Trouble, "certificate") && l.Position == 0
	})
	stop()
	clear := relayOf(db, f, newPeer(t))
	clear.Config.URL, clear.Config.CAFile = strings.Replace(clear.Config.URL, "nats://", "tls://", 1), ca
	if err := db.TroubleRelay(context.Background(), "nats/EVENTS", "none", "none"); err != nil {
		t.Fatal(err)
	}
	stop = running(t, clear.Run)
	eventually(t, "the refusal of a server without TLS", func() bool {
		return lag(t, db).Code == "nats_unreachable" && strings.Contains(lag(t, db).Trouble, "secure")
	})
	stop()
	known := relayOf(db, f, p)
	known.Config.URL, known.Config.CAFile = r.Config.URL, ca
	running(t, known.Run)
	inOrder(t, js, 3)
}
