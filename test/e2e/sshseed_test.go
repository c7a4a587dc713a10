//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/sshseed"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/hwsync"
)

// A machine without an agent gets its hardware sync over its own sshd. The user becomes root only
// with sudo.
func TestHardwareSyncIsSeededOverSSH(t *testing.T) {
	s := newCase(t, shared.pool.Turn)
	ctx := s.ctx
	s.restore(booted)
	of := broker.Site{Name: "dc1"}
	private, err := maas.NewDeployKey(rand.Reader, &of)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	const user, home, sudoers = "hpcadmin", "/home/hpcadmin", "/etc/sudoers.d/90-cloud-init-users"
	s.root("useradd", "--create-home", "--shell", "/bin/bash", user)
	s.root("install", "-d", "-o", user, "-g", user, "-m", "0700", home+"/.ssh")
	s.put(home+"/.ssh/authorized_keys", []byte(of.DeploySSHPublicKey+"\n"), 0o644)

	var r rack
	at := r.serve(t)
	files, err := hwsync.Render(taskcatalog.MAASMachineToken{
		Endpoint: "http://" + at + "/MAAS/metadata/status/abc123", ConsumerKey: "CK1", TokenKey: machineToken, TokenSecret: tokenSecret,
	}, 15)
	if err != nil {
		t.Fatal(err)
	}
	seeder := &sshseed.Seeder{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if network != "tcp" || address != "192.0.2.9:22" {
			return nil, fmt.Errorf("it dials %s %s", network, address)
		}
		return s.guest.Dial(ctx, "tcp", "127.0.0.1:22")
	}}
	host := sshseed.Host{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.9")}, User: user, Key: key, SystemID: "abc123"}
	if host.HostKey, _, err = seeder.HostKey(ctx, host); err != nil {
		t.Fatal(err)
	}
	if has := s.root("cat", "/etc/ssh/ssh_host_ed25519_key.pub"); !strings.HasPrefix(has, host.HostKey) {
		t.Errorf("the host key is %s, and was noted as %s", has, host.HostKey)
	}

	// cloud-init's instance id shows that this is not the intended machine.
	if _, err := seeder.Seed(ctx, host, files); err == nil || broker.AsError(err).Code != sshseed.OtherMachine {
		t.Errorf("to another machine: %v", err)
	}
	host.SystemID = s.root("cat", "/var/lib/cloud/data/instance-id")

	// Without sudo the command fails, and the uploaded files are removed all the same.
	if _, err := seeder.Seed(ctx, host, files); err == nil || broker.AsError(err).Code != sshseed.CommandFailed {
		t.Errorf("without sudo: %v", err)
	}
	if left := s.root("find", home, "-name", ".hostler*"); left != "" {
		t.Errorf("left: %s", left)
	}
	s.put(sudoers, []byte(user+" ALL=(ALL) NOPASSWD:ALL\n"), 0o440)
	if _, err := seeder.Seed(ctx, host, files); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"/etc/maas/maas-machine-creds.yml": "root:root 700", "/usr/lib/systemd/system/maas_hardware_sync.service": "root:root 644"} {
		if st := s.root("stat", "--format", "%U:%G %a", name); st != want {
			t.Errorf("%s is %s, want %s", name, st, want)
		}
	}
	if on := s.root("systemctl", "is-enabled", "maas_hardware_sync.timer") + " " + s.root("systemctl", "is-active", "maas_hardware_sync.timer"); on != "enabled active" {
		t.Errorf("the timer is %s", on)
	}
	for deadline := time.Now().Add(90 * time.Second); len(r.set(false, false)) == 0; <-time.After(time.Second) {
		if time.Now().After(deadline) {
			t.Fatalf("no sync:\n%s", s.root("journalctl", "--no-pager", "-n", "30", "-u", "maas_hardware_sync.service"))
		}
	}
	if got := r.set(false, false); !slices.Equal(got, []string{"WORKING"}) {
		t.Errorf("the rack was signaled %q", got)
	}
	if left := s.root("find", home, "-name", ".hostler*"); left != "" {
		t.Errorf("left: %s", left)
	}
	// sudo and systemd log the commands that they run.
	if said := s.root("journalctl", "--no-pager", "--output", "cat"); strings.Contains(said, tokenSecret) || !strings.Contains(said, "/usr/bin/install") {
		t.Errorf("the journal has the token, or not the command")
	}
	if _, err := os.Stat("/etc/maas/maas-machine-creds.yml"); err == nil {
		t.Fatal("it was this machine that was seeded")
	}
}
