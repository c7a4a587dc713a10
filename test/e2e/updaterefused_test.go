//go:build e2e && e2e_all

package e2e

import (
	"bytes"
	"database/sql"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/registry"
)

// valve is a proxy of a registry. It passes a number of bytes from the registry, and then none on
// any connection until it is opened.
type valve struct {
	net.Listener
	to     string
	closes func() // called once, when the valve closes

	mu      sync.Mutex
	left    int64 // negative: the valve is open
	refused int   // connections made while the valve was closed
}

func newValve(t *testing.T, to string) *valve {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := &valve{Listener: l, to: to, left: -1}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go v.serve(c)
		}
	}()
	return v
}

// closeAfter closes the valve after the given number of further bytes.
func (v *valve) closeAfter(bytes int64, closes func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.left, v.closes, v.refused = bytes, closes, 0
}

func (v *valve) open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.left = -1
}

func (v *valve) cameInVain() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.refused
}

func (v *valve) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	v.mu.Lock()
	closed := v.left == 0
	if closed {
		v.refused++
	}
	v.mu.Unlock()
	if closed {
		return
	}
	up, err := net.Dial("tcp", v.to)
	if err != nil {
		return
	}
	defer func() { _ = up.Close() }()
	go func() { _, _ = io.Copy(up, c) }()
	_, _ = io.Copy(&metered{v, c}, up)
}

// metered is the counted side of a connection.
type metered struct {
	v *valve
	net.Conn
}

var errClosed = errors.New("the valve is closed")

func (m *metered) Write(p []byte) (int, error) {
	m.v.mu.Lock()
	let, closes := int64(len(p)), func() {}
	switch left := m.v.left; {
	case left == 0:
		let = 0
	case left > 0 && let >= left:
		let, m.v.left, closes = left, 0, m.v.closes
	case left > 0:
		m.v.left -= let
	}
	m.v.mu.Unlock()
	n, err := m.Conn.Write(p[:let])
	closes()
	if err == nil && let < int64(len(p)) {
		err = errClosed
	}
	return n, err
}

// blob returns the registry's file of a program's layer: the largest file.
func blob(t *testing.T, content string) string {
	t.Helper()
	largest, size := "", int64(0)
	err := filepath.WalkDir(content, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Size() > size {
			largest, size = path, info.Size()
		}
		return err
	})
	if err != nil || size < 1<<20 {
		t.Fatalf("the registry has no layer: %q of %d bytes, %v", largest, size, err)
	}
	return largest
}

// A faulty release, on its way or at the broker, is refused with its error code. No part of it
// runs, and the previous version continues.
func TestAReleaseThatIsNotRightIsRefused(t *testing.T) {
	s := enrolled(t)
	s.lasts(40 * time.Minute)
	r := s.releases()
	first := strings.Fields(s.root("hostler-agent", "version"))[1]
	folder := t.TempDir()
	reg, err := registry.Run(folder, registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reg.Stop)
	v := newValve(t, reg.Addr)
	repository := s.registry(v.Addr().String())
	r.build("9.0.0", "--registry", repository, "--plain-http")
	layer := blob(t, folder)
	sound, err := os.ReadFile(layer)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(s *site, version string, code taskcatalog.Code) {
		s.t.Helper()
		r := r.of(s)
		got, res := r.update(version, time.Minute, func() {})
		if got.Status != "failed" || taskcatalog.Code(got.Code) != code || res.Outcome != taskcatalog.UpdateRefused {
			s.t.Errorf("%+v %+v, want %s", got, res, code)
		}
		if out := s.root("ls", "-A", "/usr/lib/hostler-agent/versions"); strings.Contains(out, "\n"+version) {
			s.t.Errorf("it has a slot: %s", out)
		}
		r.holds(first)
	}
	serves := func(s *site, content []byte) {
		s.t.Helper()
		if err := os.WriteFile(layer, content, 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	s.part("AWrongDigest", func(s *site) {
		other := bytes.Clone(sound)
		other[len(other)/2] ^= 1
		serves(s, other)
		refused(s, "9.0.0", "release_digest_mismatch")
	})
	s.part("Truncated", func(s *site) {
		serves(s, sound[:len(sound)/2])
		refused(s, "9.0.0", "release_source_refused")
		serves(s, sound)
	})
	another, err := r.made.StandIn("9.3.0", "arm64", "exit 1")
	if err != nil {
		t.Fatal(err)
	}
	ofAnother := r.made.Commands("9.3.0", another)
	s.part("AnotherArchitecture", func(s *site) {
		publish := len(ofAnother) - 1
		for _, args := range ofAnother[:publish] {
			s.hostler(args...)
		}
		if out, err := s.Hostler(s.ctx, ofAnother[publish]...); err == nil || !strings.Contains(err.Error(), "release_arch_wrong") {
			s.t.Errorf("it was published: %v %s", err, out)
		}
	})
	// An attacker has changed the broker's database.
	s.part("AWrongSignature", func(s *site) {
		r := r.of(s)
		r.fault("9.4.0", "exit 1")
		r.fault("9.5.0", "exit 1")
		if err := s.StopBroker(); err != nil {
			s.t.Fatal(err)
		}
		db, err := sql.Open("sqlite", filepath.Join(s.DataDir(), "hostler.db"))
		if err != nil {
			s.t.Fatal(err)
		}
		if _, err := db.Exec(`UPDATE agent_releases SET signatures = (SELECT signatures FROM agent_releases WHERE version = '9.5.0') WHERE version = '9.4.0'`); err != nil {
			s.t.Fatal(err)
		}
		if err := errors.Join(db.Close(), s.StartBroker(s.ctx)); err != nil {
			s.t.Fatal(err)
		}
		refused(s, "9.4.0", "release_signature_invalid")
	})
	s.part("OlderThanTheFloor", func(s *site) {
		s.hostler("agent-release", "floor", "9.9.0", "--reason", "a hole")
		if out, err := s.Hostler(s.ctx, s.order("node.self_update", map[string]any{"phase": "update", "version": "9.0.0"})...); err == nil || !strings.Contains(err.Error(), "release_below_floor") {
			s.t.Errorf("%v %s", err, out)
		}
	})
	// An attacker controls the broker, which signs every request.
	s.part("TheBrokerDoesNotLook", func(s *site) {
		s.broker(
			lab.Change{File: "broker/adminapi/signedreleases.go", Was: "Arch: release.Arch,", Is: "Arch: s.Arch,"},
			lab.Change{File: "broker/taskqueue/selfupdate.go", Was: `case p.Floor != "" &&`, Is: `case false &&`},
		)
		s.part("AtTheFloor", func(s *site) { refused(s, "9.0.0", "release_below_floor") })
		s.hostler("agent-release", "floor", "0.0.1", "--reason", "it was none")
		s.part("AtTheArchitecture", func(s *site) {
			s.hostler(ofAnother[len(ofAnother)-1]...)
			refused(s, "9.3.0", "release_arch_wrong")
		})
		s.broker()
	})
	s.part("TheDiskIsFull", func(s *site) {
		s.root("sh", "-c", "fallocate --length $(( $(stat -f -c '%a * %S' /) - 50 * 1024 * 1024 )) /var/tmp/full")
		refused(s, "9.0.0", "update_no_space")
		s.root("rm", "/var/tmp/full")
	})
	// The registry goes down during the pull and comes back: the part already fetched is not
	// fetched again.
	s.part("TheRegistryIsGoneInTheMiddle", func(s *site) {
		r := r.of(s)
		v.closeAfter(int64(len(sound))*2/3, reg.Stop)
		got, res := r.update("9.0.0", time.Minute, func() {
			s.cameInVain(v)
			if err := reg.Resume(); err != nil {
				s.t.Fatal(err)
			}
			v.open()
		})
		if got.Status != "succeeded" || res.Outcome != taskcatalog.UpdateConfirmed {
			s.t.Fatalf("%+v %+v", got, res)
		}
		if most := int64(len(sound)) * 10 / 9; res.BytesFetched > most {
			s.t.Errorf("it fetched %d bytes of %d", res.BytesFetched, len(sound))
		}
		r.holds("9.0.0")
	})
	// Another process fills the disk during a write: there was space at the beginning of the pull.
	s.part("TheDiskIsFullInTheMiddle", func(s *site) {
		r := r.of(s)
		r.build("9.1.0", "--registry", repository, "--plain-http")
		v.closeAfter(int64(len(sound))*2/3, func() {})
		got, res := r.update("9.1.0", time.Minute, func() {
			s.cameInVain(v)
			s.root("sh", "-c", "cd /usr/lib/hostler-agent/versions/.unverified-9.1.0-*; test $(stat -c %s layer.unverified) -gt 1000000")
			s.root("sh", "-c", "fallocate --length $(( $(stat -f -c '%f * %S' /) )) /var/tmp/full || true; cat /dev/zero > /var/tmp/rest 2> /dev/null || true")
			v.open()
		})
		left := s.root("ls", "-A", "/usr/lib/hostler-agent/versions")
		s.root("rm", "/var/tmp/full", "/var/tmp/rest")
		if got.Code != "update_no_space" || !strings.Contains(got.Message, "the disk is full") || res.Outcome != taskcatalog.UpdateRefused || strings.Contains(left, "9.1.0") {
			s.t.Fatalf("%+v %+v; there are %q", got, res, left)
		}
		r.holds("9.0.0")
		if got, res := r.update("9.1.0", time.Minute, func() {}); got.Status != "succeeded" || res.Outcome != taskcatalog.UpdateConfirmed {
			s.t.Fatalf("with space again: %+v %+v", got, res)
		}
		r.holds("9.1.0")
	})
	s.hostler("audit", "verify")
}

// cameInVain waits until a pull was interrupted and its retry has failed.
func (s *site) cameInVain(v *valve) {
	s.t.Helper()
	err := s.Wait(s.ctx, "the node to ask in vain", func() error {
		if v.cameInVain() == 0 {
			return errors.New("it has not come")
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// broker replaces the running broker by a modified broker.
func (s *site) broker(changes ...lab.Change) {
	s.t.Helper()
	if err := errors.Join(s.StopBroker(), s.ChangeBroker(s.ctx, changes...), s.StartBroker(s.ctx)); err != nil {
		s.t.Fatal(err)
	}
}
