package sshseed

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/hwsync"
)

// The codes of errors.
const (
	Unreachable    = "ssh_unreachable"   // nothing answers, or hangs up, or is too slow
	HostKeyChanged = "host_key_changed"  // another machine answers, or the same with another key
	Refused        = "ssh_refused"       // the login, or all allowed algorithms
	OtherMachine   = "ssh_other_machine" // another machine answers at an address of the machine, and admits the deploy user
	UploadFailed   = "ssh_upload_failed"
	CommandFailed  = "ssh_command_failed"
)

// Port is sshd's.
const Port = 22

// The time limits of the steps.
const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 20 * time.Second
	sending          = 30 * time.Second
	commands         = 60 * time.Second
	closeTimeout     = time.Second // additional time for work on a closed connection
)

// Seeder reaches machines.
type Seeder struct {
	// Dial opens a TCP connection. Tests lead it to a server of theirs.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// InstanceID is the file with MAAS's id on the machine; empty: cloud-init's. Tests set a file
	// of theirs.
	InstanceID string
}

// Host is a machine, and the login to it.
type Host struct {
	Addresses []netip.Addr // tried in order; the first that answers is used
	User      string
	Key       ssh.Signer // the deploy user's
	HostKey   string     // as authorized_keys has it
	SystemID  string     // MAAS's id of the machine
}

// HostKey returns the machine's host key, as authorized_keys has it, and the address at which the
// machine answers. Nobody logs in. Codes: Unreachable, Refused.
func (s *Seeder) HostKey(ctx context.Context, h Host) (key string, at netip.Addr, err error) {
	conn, at, err := s.dial(ctx, h.Addresses)
	if err != nil {
		return "", at, err
	}
	defer conn.Close()
	var first firstUse
	err = within(ctx, conn, handshakeTimeout, func() error {
		_, _, _, err := ssh.NewClientConn(conn, at.String(), first.config())
		return err
	})
	if first.key == "" {
		return "", at, handshakeError(at, err, false)
	}
	return first.key, at, nil
}

// Seed installs the files and starts hardware sync. It may be called again after any failure:
// remains of an earlier call are removed first. All machines of a site admit its deploy user, and
// an address may belong to another machine by now: a machine with another id gets nothing. Codes:
// all of this package.
func (s *Seeder) Seed(ctx context.Context, h Host, files hwsync.Files) (at netip.Addr, err error) {
	pinned, err := pin(h)
	if err != nil {
		return at, err
	}
	conn, at, err := s.dial(ctx, h.Addresses)
	if err != nil {
		return at, err
	}
	defer conn.Close()
	var client *ssh.Client
	err = within(ctx, conn, handshakeTimeout, func() error {
		c, channels, requests, err := ssh.NewClientConn(conn, at.String(), pinned)
		if err == nil {
			client = ssh.NewClient(c, channels, requests)
		}
		return err
	})
	if err != nil {
		return at, handshakeError(at, err, true)
	}
	defer client.Close()
	m := &machine{conn: conn, client: client, at: at, secrets: words(files.Credentials)}
	if err := m.checkID(ctx, cmp.Or(s.InstanceID, instanceID), h.SystemID); err != nil {
		return at, err
	}
	if err := m.upload(ctx, files); err != nil {
		return at, err
	}
	ended, err := m.run(ctx, install)
	// The upload has no further use, whether the installation succeeded or failed.
	if ended {
		m.forget(ctx)
	}
	if err == nil {
		_, err = m.run(ctx, start)
	}
	return at, err
}

// machine is a machine after the login.
type machine struct {
	conn   net.Conn
	client *ssh.Client
	at     netip.Addr
	// secrets are hidden, should the machine repeat them.
	secrets []string
}

// dial tries one address after the other.
func (s *Seeder) dial(ctx context.Context, addresses []netip.Addr) (net.Conn, netip.Addr, error) {
	var last error = errors.New("the machine has no address")
	var at netip.Addr
	for _, at = range addresses {
		one, cancel := context.WithTimeout(ctx, dialTimeout)
		conn, err := s.Dial(one, "tcp", netip.AddrPortFrom(at, Port).String())
		cancel()
		if err == nil {
			return conn, at, nil
		}
		if last = err; ctx.Err() != nil {
			break
		}
	}
	return nil, at, failed(Unreachable, at, "cannot reach the machine", last)
}

// within runs do on a connection, and closes the connection at the limit: neither library takes a
// context. Then within waits a moment longer for do, but not forever: crypto/ssh waits forever when it
// opens a channel on a connection that has just ended.
func within(ctx context.Context, conn net.Conn, limit time.Duration, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		_ = conn.Close()
		select {
		case <-done:
		case <-time.After(closeTimeout):
		}
		return context.Cause(ctx)
	}
}

// handshakeError returns the error of a failed handshake. A machine without a key of the recorded
// kind counts as changed.
func handshakeError(at netip.Addr, err error, pinned bool) error {
	changed, negotiation := (*keyChanged)(nil), (*ssh.AlgorithmNegotiationError)(nil)
	switch {
	case errors.As(err, &changed):
		return failed(HostKeyChanged, at, "the machine answers with another host key", changed)
	case errors.As(err, &negotiation) && pinned && negotiation.What == "host key":
		return failed(HostKeyChanged, at, "the machine answers with other host keys", err)
	case errors.As(err, &negotiation), errors.Is(err, errWeak):
		return failed(Refused, at, "the machine offers no allowed algorithm", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return failed(Unreachable, at, "the machine does not answer in time", err)
	}
	if loginRefused(err) {
		return failed(Refused, at, "the machine refuses the deploy user's login", err)
	}
	return failed(Unreachable, at, "the machine closes the connection", err)
}

// failed makes an error of this package. The machine's text is cleaned and cut.
func failed(code string, at netip.Addr, what string, why error) error {
	kind := broker.Refused
	if code == Unreachable {
		kind = broker.Unavailable
	}
	where := ""
	if at.IsValid() {
		where = " at " + at.String()
	}
	return broker.Errorf(kind, code, "%s%s: %s", what, where, taskcatalog.Clean(why.Error(), 300))
}
