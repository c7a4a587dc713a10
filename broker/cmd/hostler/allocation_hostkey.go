package main

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

var allocationID = lazyregexp.New(`^[a-z0-9-]{1,64}$`)

// hostKeyOptions makes ssh accept the host key that the node proved to have, and no other one. The key
// has a file and a name of its own, because the same address has another key for the next allocation.
// Without a proven key there are no options: ssh's own check stays as the person has it.
func (a *app) hostKeyOptions(id string, l api.AllocationLogin) ([]string, error) {
	if l.HostKey == "" {
		return nil, nil
	}
	key, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(l.HostKey))
	if err != nil || len(rest) > 0 || !allocationID.MatchString(id) || !hostForm.MatchString(l.Hostname) {
		return nil, broker.Errorf(broker.Internal, "host_key_invalid",
			"cannot log in: the broker's host key of %q cannot be used (ask the platform's operators)", l.Hostname)
	}
	dir, err := a.contextDir()
	if err != nil {
		return nil, err
	}
	name := id + "." + l.Hostname
	dir = filepath.Join(dir, "known_hosts")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, broker.Errorf(broker.Internal, "config_unwritable", "cannot keep the host key of %s: %v", l.Hostname, err)
	}
	file := filepath.Join(dir, name)
	if err := clientfile.WritePrivate(file, []byte(name+" "+string(ssh.MarshalAuthorizedKey(key)))); err != nil {
		return nil, broker.Errorf(broker.Internal, "config_unwritable", "cannot keep the host key of %s: %v", l.Hostname, err)
	}
	quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(file) + `"`
	return []string{"-o", "UserKnownHostsFile=" + quoted, "-o", "HostKeyAlias=" + name, "-o", "StrictHostKeyChecking=yes"}, nil
}

// hostKeyFingerprint is what ssh shows of a key at the first login; empty: the key is not known.
func hostKeyFingerprint(line string) string {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return ""
	}
	return ssh.FingerprintSHA256(key)
}
