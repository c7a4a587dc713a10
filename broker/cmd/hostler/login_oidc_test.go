package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/broker/operators"
	"github.com/hostler/hostler/broker/operators/oidc"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/test/oidcprovider"
)

// person is somebody at a machine with the CLI.
type person struct {
	t        *testing.T
	broker   *servertest.Broker
	provider *oidcprovider.Provider
	home     string
	ahead    time.Duration // of the machine's clock
}

func newPerson(t *testing.T) *person {
	t.Helper()
	provider := oidcprovider.Start(t, map[string]oidcprovider.Person{
		"ada": {Email: "ada@acme.example", Groups: []string{"staff", "lab"}}, "eve": {Groups: []string{"staff"}},
	})
	b := servertest.Start(t, func(c *server.Config) {
		c.OIDC = &operators.PeopleConfig{
			Config: oidc.Config{Issuer: provider.Issuer, ClientID: oidcprovider.Client, CAFile: provider.CAFile},
			Rules:  []operators.Rule{{Claim: "groups", Value: "lab", Role: broker.RoleProjectMember, Project: "acme/lab"}},
		}
	})
	for _, name := range []string{"acme", "secret"} {
		servertest.Must[api.Organisation](t, b, http.MethodPost, "/organisations", api.OrganisationCreate{Name: name})
		servertest.Must[api.Project](t, b, http.MethodPost, "/organisations/"+name+"/projects", api.ProjectCreate{Name: "lab"})
	}
	return &person{t: t, broker: b, provider: provider, home: t.TempDir()}
}

// run runs a command. seen gets each line of stderr as it comes; it may be nil.
func (p *person) run(seen func(line string), args ...string) (status int, out, errors string) {
	p.t.Helper()
	r, w := io.Pipe()
	var stdout, stderr bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			stderr.WriteString(lines.Text() + "\n")
			if seen != nil {
				seen(lines.Text())
			}
		}
	}()
	status = run(p.t.Context(), args, processEnv{
		in: strings.NewReader(""), out: &stdout, err: w,
		getenv: func(name string) string { return map[string]string{"HOME": p.home}[name] },
		now:    func() time.Time { return time.Now().Add(p.ahead) },
		width:  func() int { return 80 }, outWidth: func() int { return 0 },
	})
	_ = w.Close()
	<-read
	return status, stdout.String(), stderr.String()
}

var enterCode = regexp.MustCompile(`enter the code (\S+)$`)

// login signs somebody in, who does with the code what do says.
func (p *person) login(do func(ctx context.Context, code string) error, args ...string) (status int, out, errors string) {
	p.t.Helper()
	return p.run(func(line string) {
		if code := enterCode.FindStringSubmatch(line); code != nil {
			if err := do(p.t.Context(), code[1]); err != nil {
				p.t.Error(err)
			}
		}
	}, append([]string{"login", "--oidc"}, args...)...)
}

func (p *person) as(subject string) func(ctx context.Context, code string) error {
	return func(ctx context.Context, code string) error { return p.provider.Enter(ctx, code, subject) }
}

func (p *person) first() []string {
	return []string{"--broker", p.broker.OperatorURL(), "--ca-sha256", p.broker.RootSHA256(), "--context", "dc1"}
}

func (p *person) file() string { return filepath.Join(p.home, ".config", "hostler", "dc1.sign-in") }

func (p *person) kept() *clientfile.SignIn {
	p.t.Helper()
	s, err := clientfile.ReadSignIn(p.file())
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func TestAPersonSignsInByCode(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	status, out, said := p.login(p.as("ada"), p.first()...)
	if status != exitDone || !strings.Contains(out, "as oidc:ada, ada@acme.example (project_member at prj-") || !strings.Contains(said, p.provider.Issuer+"/device\n") {
		t.Fatalf("%d\n%s%s", status, out, said)
	}
	kept := p.kept()
	if info, err := os.Stat(p.file()); err != nil || info.Mode().Perm() != 0o600 || kept.RefreshToken == "" {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	printed := out + said
	for _, args := range [][]string{{"project", "list"}, {"context", "show", "-o", "json"}, {"doctor"}} {
		_, out, said := p.run(nil, args...)
		printed += out + said
	}
	if strings.Contains(printed, kept.IDToken) || strings.Contains(printed, kept.RefreshToken) {
		t.Error("a token was printed")
	}

	if status, out, said := p.run(nil, "project", "list", "-o", "json"); status != exitDone || strings.Count(out, `"prj-`) != 1 {
		t.Errorf("%d %s%s", status, out, said)
	}
	if status, _, said := p.run(nil, "node", "list"); status != exitRefused || !strings.Contains(said, "role_insufficient") {
		t.Errorf("%d %s", status, said)
	}
	if status, _, said := p.run(nil, "org", "show", "secret"); status != exitNotFound {
		t.Errorf("%d %s", status, said)
	}
	if status, _, said := p.run(nil, "--token", "hso_x", "project", "list"); status != exitRefused || !strings.Contains(said, "token_unknown") {
		t.Errorf("a token that is given does not count more: %d %s", status, said)
	}
}

func TestASignInIsRenewedBeforeItEnds(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	if status, out, said := p.login(p.as("ada"), p.first()...); status != exitDone {
		t.Fatalf("%d\n%s%s", status, out, said)
	}
	list := func(want int, code string) {
		t.Helper()
		if status, _, said := p.run(nil, "project", "list"); status != want || !strings.Contains(said, code) {
			t.Errorf("%d %s, want %d %s", status, said, want, code)
		}
	}
	before := p.kept()
	list(exitDone, "")
	if p.provider.Renewed.Load() != 0 || p.kept().IDToken != before.IDToken {
		t.Error("a fresh sign-in was renewed")
	}
	p.ahead = time.Hour - 30*time.Second // the provider's ID tokens are good for an hour
	p.provider.Away.Store(true)
	list(exitDone, "") // the token has not ended
	p.provider.Away.Store(false)
	list(exitDone, "")
	if after := p.kept(); p.provider.Renewed.Load() != 1 || after.RefreshToken == before.RefreshToken {
		t.Errorf("renewed %d times", p.provider.Renewed.Load())
	}
	p.ahead = 2 * time.Hour
	p.provider.Away.Store(true)
	list(exitFailed, "sign_in_unavailable")
	p.provider.Away.Store(false)
	p.provider.Ended.Store(true)
	list(exitRefused, "sign_in_refused: cannot sign in: the sign-in has ended at the provider (sign in again: hostler login --oidc)")
	p.ahead = 0
	p.provider.Ended.Store(false)
	if status, out, said := p.login(p.as("ada")); status != exitDone || !strings.Contains(out, "context dc1") { // the message says what works
		t.Errorf("again: %d\n%s%s", status, out, said)
	}
	list(exitDone, "")
}

func TestAPersonWhoIsNotLetInKeepsNothing(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		do   func(p *person) func(context.Context, string) error
		args []string
		away bool
		code string
		exit int
	}{
		"no role":    {do: func(p *person) func(context.Context, string) error { return p.as("eve") }, code: "oidc_no_role", exit: exitRefused},
		"denied":     {do: func(p *person) func(context.Context, string) error { return p.provider.Deny }, code: "sign_in_refused", exit: exitRefused},
		"with token": {args: []string{"--token", "hso_x"}, code: "bad_usage", exit: exitUsage},
		"away":       {away: true, code: "oidc_unavailable", exit: exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPerson(t)
			p.provider.Away.Store(row.away)
			do := func(context.Context, string) error { return nil }
			if row.do != nil {
				do = row.do(p)
			}
			status, out, said := p.login(do, append(p.first(), row.args...)...)
			if status != row.exit || !strings.Contains(said, "error: "+row.code+": ") || out != "" {
				t.Errorf("%d\n%s%s", status, out, said)
			}
			if left, _ := filepath.Glob(filepath.Join(p.home, ".config", "hostler", "*")); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// Another application's token of the same provider, and another provider's token, let nobody in.
func TestATokenOfAnotherAudienceOrProviderIsStolen(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	other := oidcprovider.Start(t, map[string]oidcprovider.Person{"ada": {Groups: []string{"lab"}}})
	for name, row := range map[string]struct {
		provider *oidcprovider.Provider
		client   string
		code     string
	}{
		"its own":          {p.provider, oidcprovider.Client, ""},
		"another audience": {p.provider, oidcprovider.Other, "oidc_token_invalid"},
		"another provider": {other, oidcprovider.Client, "oidc_token_invalid"},
	} {
		if a := p.broker.Ask(t, idToken(t, row.provider, row.client, "ada"), http.MethodGet, "/whoami", nil); a.Code() != row.code {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
}

// The provider's claims still give the role: the admin of the tenant has the last word.
func TestAPersonWhoseMemberEndedIsOutUntilAllowed(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	if status, out, said := p.login(p.as("ada"), p.first()...); status != exitDone {
		t.Fatalf("%d\n%s%s", status, out, said)
	}
	list := func(when string, want int, code string) {
		t.Helper()
		if status, _, said := p.run(nil, "project", "list"); status != want || !strings.Contains(said, code) {
			t.Errorf("%s: %d %s, want %d %s", when, status, said, want, code)
		}
	}
	admin := func(args ...string) string {
		t.Helper()
		status, out, said := p.run(nil, append(args, "--token", p.broker.Token, "--reason", "laptop stolen", "--yes")...)
		if status != exitDone {
			t.Fatalf("%v: %d\n%s%s", args, status, out, said)
		}
		return out
	}
	member := servertest.Must[api.Member](t, p.broker, http.MethodPost, "/projects/acme%2Flab/members", api.MemberAdd{Subject: "oidc:ada", Role: "project_member"})
	stream := p.broker.ProjectEvents(t, p.kept().IDToken, "lab", "")
	list("a member", exitDone, "")
	admin("member", "end", member.ID)
	if e, open := stream.Next(t); open {
		t.Errorf("an open stream goes on: %+v", e)
	}
	list("ended", exitRefused, "person_denied: cannot let oidc:ada in")
	_, out, said := p.run(nil, "member", "list", "--project", "acme/lab", "--token", p.broker.Token)
	if !strings.Contains(out, "denied") || !strings.Contains(out, "laptop stolen") {
		t.Errorf("the list does not say it:\n%s%s", out, said)
	}
	if status, out, said := p.login(p.as("ada"), "--context", "dc2", "--broker", p.broker.OperatorURL(), "--ca-sha256", p.broker.RootSHA256()); status != exitRefused || !strings.Contains(said, "person_denied") {
		t.Errorf("signed in anew: %d\n%s%s", status, out, said)
	}
	if status, out, said := p.run(nil, "member", "allow", member.ID, "--token", p.broker.Token, "--reason", "new laptop"); status != exitDone || !strings.Contains(out, "ended") {
		t.Fatalf("%d\n%s%s", status, out, said)
	}
	list("allowed", exitDone, "")
	admin("member", "deny", "oidc:ada", "--org", "acme")
	list("denied in the organisation", exitRefused, "person_denied")
	admin("member", "deny", "oidc:ada", "--org", "secret")
}

// The broker's clock judges a token, and not what the thief's machine says.
func TestAStolenTokenEnds(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	stolen := idToken(t, p.provider, oidcprovider.Client, "ada") // for an hour
	p.broker.Advance(59 * time.Minute)
	for _, code := range []string{"", "token_expired"} {
		if a := p.broker.Ask(t, stolen, http.MethodGet, "/whoami", nil); a.Code() != code {
			t.Errorf("%d %s, want %q", a.Status, a.Body, code)
		}
		p.broker.Advance(2 * time.Minute)
	}
}

func TestASignInThatOthersMayReadIsNotUsed(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	if status, out, said := p.login(p.as("ada"), p.first()...); status != exitDone {
		t.Fatalf("%d\n%s%s", status, out, said)
	}
	if err := os.Chmod(p.file(), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, _, said := p.run(nil, "project", "list"); status != exitRefused || !strings.Contains(said, "token_file_open") {
		t.Errorf("%d %s", status, said)
	}
}
