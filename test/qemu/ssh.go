package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// handshakeLimit ends an attempt at a guest whose sshd does not answer: the
// forwarded port accepts before the guest does.
const handshakeLimit = 5 * time.Second

// Result is a command's output and exit status.
type Result struct {
	Stdout, Stderr string
	Exit           int
}

// Run runs argv in the guest as root. An exit status other than 0 is an error too, in addition to
// the result.
func (g *Guest) Run(ctx context.Context, argv ...string) (Result, error) {
	return g.RunWith(ctx, nil, argv...)
}

// RunWith is Run with a standard input.
func (g *Guest) RunWith(ctx context.Context, stdin io.Reader, argv ...string) (Result, error) {
	client, err := g.client(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("guest %s: cannot run %s: %w", g.name, argv[0], err)
	}
	// The timer is armed before the first request: a frozen guest answers not even the request to
	// open a session, and ssh would wait without limit.
	stop := context.AfterFunc(ctx, func() { g.drop(client) })
	defer stop()
	session, err := client.NewSession()
	if err != nil {
		g.drop(client) // the guest ended meanwhile: the next call dials anew
		if ctx.Err() != nil {
			err = fmt.Errorf("it opens no session: %w", context.Cause(ctx))
		}
		return Result{}, fmt.Errorf("guest %s: cannot run %s: %w", g.name, argv[0], err)
	}
	defer session.Close()
	var stdout, stderr bytes.Buffer
	session.Stdin, session.Stdout, session.Stderr = stdin, &stdout, &stderr
	err = session.Run(quote(argv))
	result := Result{Stdout: stdout.String(), Stderr: stderr.String()}
	if !stop() {
		return result, fmt.Errorf("guest %s: %s did not end: %w", g.name, argv[0], context.Cause(ctx))
	}
	if exit := (*ssh.ExitError)(nil); errors.As(err, &exit) {
		result.Exit = exit.ExitStatus()
	}
	if err != nil {
		return result, fmt.Errorf("guest %s: %s: %w: %s", g.name, strings.Join(argv, " "), err, strings.TrimSpace(result.Stderr))
	}
	return result, nil
}

// put writes its standard input to a file, with directory, mode and name as arguments.
const put = `mkdir -p "$1" && install -m "$2" /dev/stdin "$3.partial" && mv -T "$3.partial" "$3"`

// Put writes a file in the guest atomically and creates its directories.
func (g *Guest) Put(ctx context.Context, name string, content []byte, mode os.FileMode) error {
	_, err := g.RunWith(ctx, bytes.NewReader(content), "sh", "-c", put, "put", path.Dir(name), fmt.Sprintf("%04o", mode.Perm()), name)
	return err
}

// Dial opens a connection from the guest: to a port on its own loopback, say.
func (g *Guest) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	client, err := g.client(ctx)
	if err != nil {
		return nil, err
	}
	return client.DialContext(ctx, network, address)
}

// client returns the connection to the guest, and dials if there is none.
func (g *Guest) client(ctx context.Context) (*ssh.Client, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ssh != nil {
		return g.ssh, nil
	}
	client, err := g.LogIn(ctx, "root", g.keys.operator)
	if err != nil {
		return nil, err
	}
	g.ssh = client
	return client, nil
}

// LogIn opens a connection of its own to the guest's sshd, as a user with a key.
func (g *Guest) LogIn(ctx context.Context, user string, key ssh.Signer) (*ssh.Client, error) {
	dialer := net.Dialer{Timeout: handshakeLimit}
	conn, err := dialer.DialContext(ctx, "tcp", g.sshAddress)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	limit := time.AfterFunc(handshakeLimit, func() { conn.Close() })
	defer limit.Stop()
	c, channels, requests, err := ssh.NewClientConn(conn, g.sshAddress, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback: ssh.FixedHostKey(g.keys.host), HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), nil
}

// hangUp ends the connection and all its commands.
func (g *Guest) hangUp() {
	g.mu.Lock()
	client := g.ssh
	g.mu.Unlock()
	if client != nil {
		g.drop(client)
	}
}

// drop ends one connection with all its commands; a connection dialled since stays.
func (g *Guest) drop(client *ssh.Client) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ssh == client {
		g.ssh = nil
	}
	client.Close()
}

// quote joins argv into one line that the guest's login shell splits into the same argv: ssh passes
// only a line.
func quote(argv []string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
