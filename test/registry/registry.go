// Package registry runs a real OCI registry, Debian's docker-registry, on loopback, for tests of
// releases and for demonstrations. Registry is the main type. A registry can be stopped and resumed
// at the same address with its content.
package registry

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// Config is the configuration of a registry.
type Config struct {
	User, Password string  // the account that may pull and push; empty: everybody may
	Tokens         *Tokens // replaces User and Password: a token service that decides the permissions
}

// Registry is a running or stopped registry.
type Registry struct {
	Addr string // 127.0.0.1:PORT, without TLS

	dir   string
	c     Config
	cmd   *exec.Cmd
	ended chan struct{}
}

// Run starts a registry that keeps its content in a directory. Run creates the directory.
func Run(dir string, c Config) (*Registry, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	r := &Registry{Addr: "127.0.0.1:0", dir: dir, c: c}
	return r, r.Resume()
}

// Start runs a registry until the test ends.
func Start(t testing.TB, c Config) *Registry {
	t.Helper()
	r, err := Run(t.TempDir(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r
}

const config = `version: 0.1
log: {level: info}
storage:
  filesystem: {rootdirectory: %s}
  maintenance: {uploadpurging: {enabled: false}}
http: {addr: "%s", secret: of-no-importance}
`

const logins = `auth: {htpasswd: {realm: hostler, path: %s}}
`

const tokens = `auth: {token: {realm: %q, service: %s, issuer: %s, rootcertbundle: %s}}
`

var listening = regexp.MustCompile(`listening on (127\.0\.0\.1:[0-9]+)`)

// Resume starts the registry again at the same address.
func (r *Registry) Resume() error {
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		return errors.New("there is no docker-registry on this machine (.ci/setup test installs it)")
	}
	text := fmt.Sprintf(config, filepath.Join(r.dir, "content"), r.Addr)
	if r.c.User != "" {
		hash, err := bcrypt.GenerateFromPassword([]byte(r.c.Password), bcrypt.MinCost)
		if err != nil {
			return err
		}
		users := filepath.Join(r.dir, "htpasswd")
		if err := os.WriteFile(users, fmt.Appendf(nil, "%s:%s\n", r.c.User, hash), 0o600); err != nil {
			return err
		}
		text += fmt.Sprintf(logins, users)
	}
	if r.c.Tokens != nil {
		bundle := filepath.Join(r.dir, "issuer.pem")
		if err := os.WriteFile(bundle, r.c.Tokens.certificate(), 0o600); err != nil {
			return err
		}
		text += fmt.Sprintf(tokens, r.c.Tokens.URL(), service, service, bundle)
	}
	file := filepath.Join(r.dir, "config.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), program, "serve", file)
	cmd.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r.cmd, r.ended = cmd, make(chan struct{})
	answers, last := make(chan string, 1), make(chan string, 1)
	go func() {
		defer close(r.ended)
		line := ""
		for in := bufio.NewScanner(said); in.Scan(); {
			line = in.Text()
			if m := listening.FindStringSubmatch(line); m != nil {
				select {
				case answers <- m[1]:
				default:
				}
			}
		}
		last <- line
		_, _ = io.Copy(io.Discard, said) // where a line was too long to be read
		_ = cmd.Wait()
	}()
	select {
	case r.Addr = <-answers:
		return nil
	case line := <-last:
		return fmt.Errorf("docker-registry ended: %s", line)
	case <-time.After(time.Minute):
		r.Stop()
		return errors.New("docker-registry does not say that it listens")
	}
}

// Stop kills the registry, like a power cut. Its content stays.
func (r *Registry) Stop() {
	_ = r.cmd.Process.Kill()
	<-r.ended
}
