package sshseed_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/broker/sshseed"
)

const secret = "planted-token-secret"

// sshd is a machine's SSH server, with a home of the deploy user in a folder of the test. Its
// fields set how it behaves.
type sshd struct {
	t    *testing.T
	home string
	id   string // the file with the machine's id
	host ssh.Signer
	user ssh.PublicKey // who may log in; nil: nobody

	password  bool                          // accepts a password, and no key
	algos     func(*ssh.Config)             // nil: the library's
	silent    string                        // where it stops answering: shake, sftp, exec
	hangUp    string                        // where it hangs up: the same
	run       func(string, ssh.Channel) int // the result of a command line; nil: success
	beside    func(*ssh.ServerConn)         // runs after the login
	unreached map[netip.Addr]bool           // addresses without a server
	between   func()                        // runs between any two messages of SFTP

	mu       sync.Mutex
	lines    []string // command lines it received
	asked    []string // requests on channels, except these lines
	methods  []string // attempted login methods
	loggedIn int
	dialed   []string
	watch    sync.WaitGroup
}

func newSSHD(t *testing.T) (*sshd, sshseed.Host, *sshseed.Seeder) {
	t.Helper()
	d := &sshd{t: t, home: t.TempDir(), id: filepath.Join(t.TempDir(), "instance-id"), host: newKey(t)}
	d.says("abc123\n")
	key := newKey(t)
	d.user = key.PublicKey()
	return d, sshseed.Host{Addresses: []netip.Addr{netip.MustParseAddr("10.10.0.9")}, User: "hpcadmin", Key: key, SystemID: "abc123"}, &sshseed.Seeder{Dial: d.dial, InstanceID: d.id}
}

// says sets the machine's id.
func (d *sshd) says(id string) {
	d.t.Helper()
	if err := os.WriteFile(d.id, []byte(id), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return signer(t, key, err)
}

func newECDSA(t *testing.T) ssh.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return signer(t, key, err)
}

func signer(t *testing.T, key any, err error) ssh.Signer {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (d *sshd) note(list *[]string, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*list = append(*list, what)
}

func (d *sshd) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d.note(&d.dialed, network+" "+address)
	at := netip.MustParseAddrPort(address)
	if d.unreached[at.Addr()] {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	here, there := newPipe(at)
	d.watch.Go(func() { d.serve(there) })
	return here, nil
}

func (d *sshd) serve(conn net.Conn) {
	defer conn.Close()
	switch {
	case d.silent == "shake":
		_, _ = io.Copy(io.Discard, conn)
		return
	case d.hangUp == "shake":
		return
	}
	c := &ssh.ServerConfig{
		AuthLogCallback: func(_ ssh.ConnMetadata, method string, _ error) { d.note(&d.methods, method) },
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if d.user != nil && bytes.Equal(key.Marshal(), d.user.Marshal()) {
				return nil, nil
			}
			return nil, errors.New("no such key")
		},
	}
	if d.password {
		c.PublicKeyCallback = nil
		c.PasswordCallback = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, nil }
		c.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			_, err := ask("", "", []string{"password:"}, []bool{false})
			return nil, err
		}
	}
	if d.algos != nil {
		d.algos(&c.Config)
	}
	c.AddHostKey(d.host)
	server, channels, requests, err := ssh.NewServerConn(conn, c)
	if err != nil {
		return
	}
	d.mu.Lock()
	d.loggedIn++
	d.mu.Unlock()
	go ssh.DiscardRequests(requests)
	if d.beside != nil {
		d.watch.Go(func() { d.beside(server) })
	}
	for nc := range channels {
		channel, requests, err := nc.Accept()
		if err != nil {
			return
		}
		d.watch.Go(func() { d.session(server, channel, requests) })
	}
}

func (d *sshd) session(server *ssh.ServerConn, channel ssh.Channel, requests <-chan *ssh.Request) {
	for r := range requests {
		switch {
		case r.Type == "subsystem":
			_ = r.Reply(true, nil)
			switch {
			case d.silent == "sftp":
				continue
			case d.hangUp == "sftp":
				_ = server.Close()
				return
			}
			s, err := sftp.NewServer(&watched{channel, d}, sftp.WithServerWorkingDirectory(d.home))
			if err != nil {
				d.t.Error(err)
				return
			}
			d.watch.Go(func() { _ = s.Serve(); _ = channel.Close() })
		case r.Type == "exec":
			var line struct{ Text string }
			_ = ssh.Unmarshal(r.Payload, &line)
			d.note(&d.lines, line.Text)
			_ = r.Reply(true, nil)
			if d.silent == "exec" {
				continue
			}
			if d.hangUp == "exec" {
				_ = server.Close()
				return
			}
			d.watch.Go(func() {
				status := 0
				if d.run != nil {
					status = d.run(line.Text, channel)
				}
				_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
				_ = channel.Close()
			})
		default:
			d.note(&d.asked, r.Type)
			_ = r.Reply(false, nil)
		}
	}
}

// watched checks, between any two messages of SFTP, whether another user could read the secret.
type watched struct {
	ssh.Channel
	d *sshd
}

func (w *watched) Read(p []byte) (int, error) {
	w.d.secretIsPrivate()
	if w.d.between != nil {
		w.d.between()
	}
	return w.Channel.Read(p)
}

func (d *sshd) secretIsPrivate() {
	err := filepath.WalkDir(d.home, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), secret) {
			return err
		}
		file, err := e.Info()
		if err != nil {
			return err
		}
		folder, err := os.Stat(filepath.Dir(path))
		if err == nil && (file.Mode().Perm() != 0o600 || folder.Mode().Perm() != 0o700) {
			d.t.Errorf("%s is %v in a folder that is %v", path, file.Mode(), folder.Mode())
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.t.Error(err)
	}
}

// pipe is one end of a connection in memory that buffers unread data, as the network does.
type pipe struct {
	in, out *queue
	at      netip.AddrPort
}

type queue struct {
	mu     sync.Mutex
	more   *sync.Cond
	data   []byte
	closed bool
}

func newPipe(at netip.AddrPort) (a, b net.Conn) {
	one, two := &queue{}, &queue{}
	one.more, two.more = sync.NewCond(&one.mu), sync.NewCond(&two.mu)
	return &pipe{one, two, at}, &pipe{two, one, at}
}

func (p *pipe) Read(b []byte) (int, error) {
	q := p.in
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.data) == 0 {
		if q.closed {
			return 0, io.EOF
		}
		q.more.Wait()
	}
	n := copy(b, q.data)
	q.data = q.data[n:]
	q.more.Broadcast()
	return n, nil
}

func (p *pipe) Write(b []byte) (int, error) {
	const room = 256 << 10
	q := p.out
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.data) > room && !q.closed {
		q.more.Wait()
	}
	if q.closed {
		return 0, net.ErrClosed
	}
	q.data = append(q.data, b...)
	q.more.Broadcast()
	return len(b), nil
}

func (p *pipe) Close() error {
	for _, q := range []*queue{p.in, p.out} {
		q.mu.Lock()
		q.closed = true
		q.more.Broadcast()
		q.mu.Unlock()
	}
	return nil
}

func (p *pipe) LocalAddr() net.Addr              { return net.TCPAddrFromAddrPort(p.at) }
func (p *pipe) RemoteAddr() net.Addr             { return net.TCPAddrFromAddrPort(p.at) }
func (p *pipe) SetDeadline(time.Time) error      { return errors.New("nobody sets a deadline") }
func (p *pipe) SetReadDeadline(time.Time) error  { return errors.New("nobody sets a deadline") }
func (p *pipe) SetWriteDeadline(time.Time) error { return errors.New("nobody sets a deadline") }
