package signin

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/oauth2"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/clientfile"
)

const (
	// soon is how long before its end an ID token is renewed.
	soon = time.Minute
	// answerWithin is how long a program that is asked to end waits for the answer to a renewal: a provider
	// that replaces refresh tokens has forgotten the one in the file.
	answerWithin = 5 * time.Second
	// lockWithin is how long a program waits for another one that renews the same sign-in.
	lockWithin = askLimit + answerWithin
	lockLook   = 50 * time.Millisecond
)

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
// sign_in_malformed, sign_in_refused, sign_in_unavailable, sign_in_busy, config_unwritable.
func (s *Session) Token(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, err := clientfile.ReadSignIn(s.path)
	if err != nil || s.left(kept) > soon {
		return idOf(kept), err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return s.meanwhile(kept, err)
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
	if err := s.renew(ctx, kept); err != nil {
		return s.meanwhile(kept, err)
	}
	return kept.IDToken, nil
}

// Keep writes a new sign-in in place of the one in the file, once no program renews that one. Codes:
// sign_in_busy, config_unwritable.
func (s *Session) Keep(ctx context.Context, kept *clientfile.SignIn) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return s.write(kept)
}

// meanwhile returns an ID token that has not ended, where a renewal failed for a while.
func (s *Session) meanwhile(kept *clientfile.SignIn, err error) (string, error) {
	passes := broker.AsError(err).Kind == broker.Unavailable || broker.AsError(err).Code == unwritable
	if passes && s.left(kept) > 0 {
		return kept.IDToken, nil
	}
	return "", err
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

// renew gets a new ID token, and writes it with the refresh token that the provider gave in place of the
// one in the file. The file is written before the provider is asked, too: a file that cannot be written
// costs no refresh token, and a program that is killed meanwhile leaves a mark. The mark of an earlier renewal
// stays until one succeeds.
func (s *Session) renew(ctx context.Context, kept *clientfile.SignIn) error {
	lost := kept.RenewingSince
	if lost.IsZero() { // an earlier mark tells when the sign-in may have been lost
		kept.RenewingSince = s.now().UTC().Truncate(time.Second)
	}
	if err := s.write(kept); err != nil {
		return err
	}
	token, known, err := ask(ctx, kept)
	if !known {
		return err
	}
	kept.RenewingSince = lost
	switch {
	case err == nil:
		kept.RenewingSince = time.Time{}
		err = take(kept, token)
	case broker.AsError(err).Code == "sign_in_refused" && !lost.IsZero():
		err = broker.Errorf(broker.Unauthorized, "sign_in_refused", "cannot sign in: the provider does not renew the sign-in. "+
			"The renewal of %s was cut off, and the provider may have replaced the refresh token then (sign in again: hostler login --oidc)",
			lost.Format(time.RFC3339))
	}
	if failed := s.write(kept); err == nil {
		err = failed
	}
	return err
}

// ask asks the provider for a renewal. known reports whether the provider's answer arrived: without it
// nobody knows which refresh token counts. The provider is asked to the end although ctx ends, for
// answerWithin.
func ask(ctx context.Context, kept *clientfile.SignIn) (token *oauth2.Token, known bool, err error) {
	client, err := newHTTP(kept.CA)
	if err != nil {
		return nil, true, err
	}
	config := configOf(kept.ClientID, kept.TokenEndpoint, kept.Scopes)
	asking, end := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, client))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(answerWithin, end) })()
	if token, err = config.TokenSource(asking, &oauth2.Token{RefreshToken: kept.RefreshToken}).Token(); err != nil {
		return nil, decided(err), inWords(asking, err)
	}
	return token, true, nil
}

// decided reports whether the provider has answered that it renews nothing. A fault of the provider, or of a
// gateway in front of it, may come after the refresh token was replaced.
func decided(err error) bool {
	answer, answered := errors.AsType[*oauth2.RetrieveError](err)
	if !answered {
		return false
	}
	status := answer.Response.StatusCode
	return status < http.StatusInternalServerError || status == http.StatusServiceUnavailable
}

// lock waits for a lock that ends with the program. Code: sign_in_busy.
func (s *Session) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(s.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, s.unwritable(err)
	}
	late := time.NewTimer(lockWithin)
	defer late.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = f.Close() }, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			_ = f.Close()
			return nil, s.unwritable(err)
		}
		again := time.NewTimer(lockLook)
		select {
		case <-again.C:
			continue
		case <-late.C:
			err = broker.Errorf(broker.Unavailable, "sign_in_busy",
				"cannot renew the sign-in in %s: another program has been renewing it for %v (see whether a hostler is stopped, and try again)",
				s.path, lockWithin)
		case <-ctx.Done():
			err = ctx.Err()
		}
		again.Stop()
		_ = f.Close()
		return nil, err
	}
}

func (s *Session) write(kept *clientfile.SignIn) error {
	if err := kept.Write(s.path); err != nil {
		return s.unwritable(err)
	}
	return nil
}

const unwritable = "config_unwritable"

func (s *Session) unwritable(err error) error {
	return broker.Errorf(broker.Internal, unwritable, "cannot write the sign-in in %s: %v", s.path, err)
}
