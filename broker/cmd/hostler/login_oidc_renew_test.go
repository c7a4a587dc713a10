package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/broker/cmd/hostler/signin"
)

// due is a signed-in person whose ID token must be renewed. The provider replaces the refresh token with each
// renewal, and refuses the one before.
func due(t *testing.T) *person {
	t.Helper()
	p := newPerson(t)
	if status, out, said := p.login(p.as("ada"), p.first()...); status != exitDone {
		t.Fatalf("%d\n%s%s", status, out, said)
	}
	p.ahead = time.Hour - 30*time.Second // the provider's ID tokens are good for an hour
	return p
}

func (p *person) session() *signin.Session {
	ahead := p.ahead
	return signin.Open(p.file(), func() time.Time { return time.Now().Add(ahead) })
}

func (p *person) answering(call func()) { p.provider.Answering.Store(&call) }

// Ctrl-C in the moment in which the provider has replaced the refresh token does not cost the sign-in.
func TestARenewalSurvivesAnInterrupt(t *testing.T) {
	t.Parallel()
	p := due(t)
	before := p.kept()
	ctx, interrupt := context.WithCancel(t.Context())
	p.answering(interrupt)
	if _, err := p.session().Token(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if after := p.kept(); ctx.Err() == nil || after.RefreshToken == before.RefreshToken || !after.RenewingSince.IsZero() {
		t.Errorf("%v, a new refresh token: %t, %v", ctx.Err(), after.RefreshToken != before.RefreshToken, after.RenewingSince)
	}
	p.answering(func() {})
	p.ahead = 3 * time.Hour
	if _, err := p.session().Token(t.Context()); err != nil || p.provider.Renewed.Load() != 2 {
		t.Errorf("the next renewal: %v, %d renewals", err, p.provider.Renewed.Load())
	}
}

// A program that is killed in that moment has the refresh token that counts nowhere. The next program says so.
func TestARenewalThatIsCutOffIsToldOf(t *testing.T) {
	t.Parallel()
	p := due(t)
	p.answering(func() { panic(http.ErrAbortHandler) })
	if token, err := p.session().Token(t.Context()); err != nil || token != p.kept().IDToken { // it has not ended
		t.Errorf("%q, %v", token, err)
	}
	if p.kept().RenewingSince.IsZero() {
		t.Error("the file does not have it")
	}
	p.answering(func() {})
	cut := p.kept().RenewingSince
	p.provider.Away.Store(true) // an answer that decides nothing keeps the mark
	if _, err := p.session().Token(t.Context()); err != nil || !p.kept().RenewingSince.Equal(cut) {
		t.Errorf("while the provider is away: %v, %v", p.kept().RenewingSince, err)
	}
	p.provider.Away.Store(false)
	for range 2 {
		status, _, said := p.run(nil, "project", "list")
		if status != exitRefused || !strings.Contains(said, "sign_in_refused: cannot sign in: the provider does not renew the sign-in. The renewal of 20") ||
			!strings.Contains(said, "(sign in again: hostler login --oidc)") {
			t.Errorf("%d %s", status, said)
		}
	}
	p.ahead = 0
	if status, out, said := p.login(p.as("ada")); status != exitDone || !p.kept().RenewingSince.IsZero() {
		t.Errorf("again: %d\n%s%s", status, out, said)
	}
}

// Programs that renew at the same moment show one refresh token once.
func TestProgramsThatRenewAtOnceRenewOnce(t *testing.T) {
	t.Parallel()
	p := due(t)
	p.ahead = 0
	ended := p.kept()
	ended.IDToken = "e30.eyJleHAiOjF9.x" // {"exp":1}
	if err := ended.Write(p.file()); err != nil {
		t.Fatal(err)
	}
	tokens := make([]string, 8)
	var group sync.WaitGroup
	for i := range tokens {
		one := p.session() // of a program of its own: each has a lock of its own
		group.Go(func() {
			var err error
			if tokens[i], err = one.Token(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, token := range tokens {
		if token != p.kept().IDToken {
			t.Error("a program has another ID token than the file")
		}
	}
	if n := p.provider.Renewed.Load(); n != 1 {
		t.Errorf("renewed %d times", n)
	}
	p.ahead = 3 * time.Hour
	if _, err := p.session().Token(t.Context()); err != nil {
		t.Error(err)
	}
}

// A login that cannot save its sign-in says why: another program holds it, Ctrl-C, or a file in the way.
func TestALoginSaysWhyItSavedNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	held, err := os.Create(filepath.Join(dir, "dc1.sign-in.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	save := func(ctx context.Context, path string) error {
		return (&app{}).saveSignIn(ctx, path, "dc1", &clientfile.File{SignInFile: "dc1.sign-in"}, &clientfile.SignIn{})
	}
	path := filepath.Join(dir, "dc1.yaml")
	synctest.Test(t, func(t *testing.T) {
		if err := save(t.Context(), path); broker.AsError(err).Code != "sign_in_busy" {
			t.Errorf("held by another program: %v", err)
		}
		interrupted, stop := context.WithCancel(t.Context())
		stop()
		if err := save(interrupted, path); !errors.Is(err, context.Canceled) {
			t.Errorf("Ctrl-C: %v", err)
		}
	})
	if err := save(t.Context(), filepath.Join(held.Name(), "below", "dc1.yaml")); broker.AsError(err).Code != "config_unwritable" {
		t.Errorf("a file in place of the folder: %v", err)
	}
}
