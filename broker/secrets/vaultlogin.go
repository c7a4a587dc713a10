package secrets

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/hostler/hostler/broker/internal/regular"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// login provides the tokens of requests.
type login interface {
	// token returns a token that should be valid now.
	token(ctx context.Context) (string, error)
	// renew reports whether another token may be tried after the token denied was refused.
	renew(denied string) bool
}

// loginRefused is the reason why there is no token. It contains no part of a login.
type loginRefused struct{ why string }

func (e *loginRefused) Error() string { return e.why }

// tokenFile is a file with a token that another program, such as Vault Agent, or a person keeps
// fresh. The file is read at each use.
type tokenFile string

func (f tokenFile) token(context.Context) (string, error) { return credential(string(f)) }
func (tokenFile) renew(string) bool                       { return false }

const (
	// maxCredential bounds a login's file, in bytes.
	maxCredential = 8 << 10
	// leastLife is the time for which a token is kept although a request was denied. Otherwise a
	// path that no token may use would cost a login with each request.
	leastLife = time.Minute
)

var credentialForm = lazyregexp.New(`^[!-~]+$`)

// credential reads one word from a file that others cannot read.
func credential(file string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", &loginRefused{"the broker cannot use its login file " + file + ": " + why}
	}
	f, err := regular.Open(file)
	if err != nil {
		return refuse(plain(err).Error())
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return refuse(plain(err).Error())
	}
	if info.Mode().Perm()&0o027 != 0 {
		return refuse("other users can read the file (chmod 640)")
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxCredential+1))
	if err != nil {
		return refuse(plain(err).Error())
	}
	word := strings.TrimSpace(string(raw))
	if len(raw) > maxCredential || !credentialForm.MatchString(word) {
		return refuse("the file must contain one word and nothing else")
	}
	return word, nil
}

// appRoleLogin logs in when a token is needed and there is none, or the token's life is nearly
// over. Concurrent callers share a login.
type appRoleLogin struct {
	role  AppRole
	wire  *wire
	now   func() time.Time
	group singleflight.Group

	mu   sync.Mutex
	have string
	from time.Time
	ends time.Time // zero: no end
}

func newAppRoleLogin(r AppRole, w *wire, now func() time.Time) *appRoleLogin {
	if r.Mount == "" {
		r.Mount = "approle"
	}
	return &appRoleLogin{role: r, wire: w, now: now}
}

func (l *appRoleLogin) token(ctx context.Context) (string, error) {
	if have := l.currentToken(); have != "" {
		return have, nil
	}
	// The end of one caller's context does not end the shared login.
	done := l.group.DoChan("", func() (any, error) {
		// Another login may have finished between this caller's check and its request.
		if have := l.currentToken(); have != "" {
			return have, nil
		}
		return l.login(context.WithoutCancel(ctx))
	})
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case got := <-done:
		token, _ := got.Val.(string)
		return token, got.Err
	}
}

// currentToken returns the token of the last login, or "" if its life is nearly over.
func (l *appRoleLogin) currentToken() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ends.IsZero() && !l.now().Before(l.ends) {
		return ""
	}
	return l.have
}

func (l *appRoleLogin) renew(denied string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.have == denied {
		if l.now().Sub(l.from) < leastLife {
			return false
		}
		l.have = ""
	}
	return true
}

func (l *appRoleLogin) login(ctx context.Context) (string, error) {
	roleID, err := credential(l.role.RoleIDFile)
	if err != nil {
		return "", err
	}
	secretID, err := credential(l.role.SecretIDFile)
	if err != nil {
		return "", err
	}
	var got struct {
		Auth struct {
			ClientToken   string `json:"client_token"`
			LeaseDuration int64  `json:"lease_duration"` // seconds; 0: no end
		} `json:"auth"`
	}
	from := l.now().Round(0) // Vault counts by the wall clock
	body := map[string]string{"role_id": roleID, "secret_id": secretID}
	err = l.wire.send(ctx, "", request{http.MethodPost, "auth/" + l.role.Mount + "/login", body}, &got)
	switch {
	case isStatus(err, http.StatusBadRequest), isStatus(err, http.StatusForbidden), isStatus(err, http.StatusNotFound):
		return "",
			&loginRefused{"Vault refuses the broker's AppRole (put a new secret id into " + l.role.SecretIDFile + ", and check the role)"}
	case err != nil:
		return "", err
	case !credentialForm.MatchString(got.Auth.ClientToken):
		return "", errNotVault
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.have, l.from, l.ends = got.Auth.ClientToken, from, time.Time{}
	if life := min(got.Auth.LeaseDuration, 10*365*24*3600); life > 0 {
		// The last tenth is reserve for running requests.
		l.ends = from.Add(time.Duration(life) * time.Second * 9 / 10)
	}
	return l.have, nil
}
