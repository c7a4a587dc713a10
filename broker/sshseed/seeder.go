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

// The codes of what goes wrong.
const (
	Unreachable    = "ssh_unreachable"   // nothing answers, or hangs up, or is too slow
	HostKeyChanged = "host_key_changed"  // another machine answers, or the same with another key
	Refused        = "ssh_refused"       // the login, or all algorithms that are allowed
	OtherMachine   = "ssh_other_machine" // it answers at an address of the machine, lets the deploy user in, and is another
	UploadFailed   = "ssh_upload_failed"
	CommandFailed  = "ssh_command_failed"
)

// Port is sshd's.
const Port = 22

// How long each step may take.
const (
	dialing  = 10 * time.Second
	shaking  = 20 * time.Second
	sending  = 30 * time.Second
	commands = 60 * time.Second
	closing  = time.Second // more, for what is done on a connection that was closed
)

// Seeder reaches machines.
type Seeder struct {
	// Dial opens a TCP connection. Tests lead it to a server of theirs.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// InstanceID is the file in which a machine has MAAS's id of it; empty:
	// cloud-init's. Tests give it one of theirs.
	InstanceID string
}

// Host is a machine, and who logs in to it.
type Host struct {
	Addresses []netip.Addr // the first that answers is it
	User      string
	Key       ssh.Signer // the deploy user's
	HostKey   string     // as authorized_keys has it
	SystemID  string     // MAAS's id of the machine
}

// HostKey is the machine's host key, as authorized_keys has it, and the address that
// it answers at. Nobody logs in. Codes: Unreachable, Refused.
func (s *Seeder) HostKey(ctx context.Context, h Host) (key string, at netip.Addr, err error) {
	conn, at, err := s.dial(ctx, h.Addresses)
	if err != nil {
		return "", at, err
	}
	defer conn.Close()
	var first firstUse
	err = within(ctx, conn, shaking, func() error {
		_, _, _, err := ssh.NewClientConn(conn, at.String(), first.config())
		return err
	})
	if first.key == "" {
		return "", at, shook(at, err, false)
	}
	return first.key, at, nil
}

// Seed installs the files and starts hardware sync. It may be called again after
// any failure: what was left of it is removed first. All machines of a site let its
// deploy user in, and an address may be another's by now: one that is not the machine
// by its own word gets nothing. Codes: all of this package.
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
	err = within(ctx, conn, shaking, func() error {
		c, channels, requests, err := ssh.NewClientConn(conn, at.String(), pinned)
		if err == nil {
			client = ssh.NewClient(c, channels, requests)
		}
		return err
	})
	if err != nil {
		return at, shook(at, err, true)
	}
	defer client.Close()
	m := &machine{conn: conn, client: client, at: at, secrets: words(files.Credentials)}
	if err := m.is(ctx, cmp.Or(s.InstanceID, instanceID), h.SystemID); err != nil {
		return at, err
	}
	if err := m.upload(ctx, files); err != nil {
		return at, err
	}
	ended, err := m.run(ctx, install)
	// What was installed is of no more use there, whatever became of it.
	if ended {
		m.forget(ctx)
	}
	if err == nil {
		_, err = m.run(ctx, start)
	}
	return at, err
}

// machine is one that has been logged in to.
type machine struct {
	conn   net.Conn
	client *ssh.Client
	at     netip.Addr
	// secrets are not told, should the machine tell them back.
	secrets []string
}

// dial tries one address after the other.
func (s *Seeder) dial(ctx context.Context, addresses []netip.Addr) (net.Conn, netip.Addr, error) {
	var last error = errors.New("it has no address")
	var at netip.Addr
	for _, at = range addresses {
		one, cancel := context.WithTimeout(ctx, dialing)
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

// within does what is done on a connection, which is closed when it takes too long:
// neither library takes a context. It is waited for a moment longer and not for ever, as
// crypto/ssh does that opens a channel on a connection that has just ended.
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
		case <-time.After(closing):
		}
		return context.Cause(ctx)
	}
}

// shook tells what became of a handshake. A machine that no longer has a key of the
// kind that was noted has another key.
func shook(at netip.Addr, err error, pinned bool) error {
	changed, negotiation := (*keyChanged)(nil), (*ssh.AlgorithmNegotiationError)(nil)
	switch {
	case errors.As(err, &changed):
		return failed(HostKeyChanged, at, "the machine answers with another host key", changed)
	case errors.As(err, &negotiation) && pinned && negotiation.What == "host key":
		return failed(HostKeyChanged, at, "the machine answers with other host keys", err)
	case errors.As(err, &negotiation), errors.Is(err, errWeak):
		return failed(Refused, at, "the machine offers nothing that is allowed", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return failed(Unreachable, at, "the machine does not answer in time", err)
	}
	if loginRefused(err) {
		return failed(Refused, at, "the machine does not let the deploy user in", err)
	}
	return failed(Unreachable, at, "the machine hangs up", err)
}

// failed is an error of this package. What the machine said is cleaned and cut.
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
