package signin

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/oauth2"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/clientfile"
)

// soon is how long before its end an ID token is renewed.
const soon = time.Minute

// Session is a sign-in that is kept in a file. It is safe for concurrent use, by several programs too.
type Session struct {
	path string
	now  func() time.Time

	mu sync.Mutex
}

// Open names the file of a sign-in.
func Open(path string, now func() time.Time) *Session { return &Session{path: path, now: now} }

// Token returns an ID token that is good for a while, renewed if the one in the file is not. While the
// provider is away, a token that has not ended serves. Codes: token_file_unreadable, token_file_open,
// sign_in_malformed, sign_in_refused, sign_in_unavailable.
func (s *Session) Token(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, err := clientfile.ReadSignIn(s.path)
	if err != nil || s.left(kept) > soon {
		return idOf(kept), err
	}
	unlock, err := lock(s.path + ".lock")
	if err != nil {
		return "", unwritable(s.path, err)
	}
	defer unlock()
	// Another program may have renewed it meanwhile. A provider may end a sign-in whose refresh token
	// is shown twice.
	if kept, err = clientfile.ReadSignIn(s.path); err != nil || s.left(kept) > soon {
		return idOf(kept), err
	}
	if kept.RefreshToken == "" {
		if s.left(kept) > 0 {
			return kept.IDToken, nil
		}
		return "", broker.Errorf(broker.Unauthorized, "sign_in_refused",
			"cannot use the sign-in: it has ended, and the provider gave nothing to renew it (sign in again: hostler login --oidc)")
	}
	if err := renew(ctx, kept); err != nil {
		if broker.AsError(err).Kind == broker.Unavailable && s.left(kept) > 0 {
			return kept.IDToken, nil
		}
		return "", err
	}
	if err := kept.Write(s.path); err != nil {
		return "", unwritable(s.path, err)
	}
	return kept.IDToken, nil
}

func (s *Session) left(kept *clientfile.SignIn) time.Duration {
	return expiryOf(kept.IDToken).Sub(s.now())
}

func idOf(kept *clientfile.SignIn) string {
	if kept == nil {
		return ""
	}
	return kept.IDToken
}

// renew gets a new ID token.
func renew(ctx context.Context, kept *clientfile.SignIn) error {
	client, err := newHTTP(kept.CA)
	if err != nil {
		return err
	}
	config := configOf(kept.ClientID, kept.TokenEndpoint, kept.Scopes)
	ctx = context.WithValue(ctx, oauth2.HTTPClient, client)
	token, err := config.TokenSource(ctx, &oauth2.Token{RefreshToken: kept.RefreshToken}).Token()
	if err != nil {
		return inWords(ctx, err)
	}
	return take(kept, token)
}

// lock waits for a lock that ends with the program.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

func unwritable(path string, err error) error {
	return broker.Errorf(broker.Internal, "config_unwritable", "cannot renew the sign-in in %s: %v", path, err)
}
