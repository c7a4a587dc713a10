package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Groups reads /etc/group as name:gid:members, the members sorted.
func (m *Machine) Groups() ([]string, error) {
	raw, err := m.ReadFile("/etc/group", 4<<20)
	if err != nil {
		return nil, fmt.Errorf("cannot read groups: %w", err)
	}
	return parseGroups(string(raw))
}

func parseGroups(text string) ([]string, error) {
	var all []string
	for n, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, ":")
		if len(f) != 4 || f[0] == "" {
			return nil, fmt.Errorf("cannot parse /etc/group: line %d is not a group", n+1)
		}
		if _, err := strconv.ParseUint(f[2], 10, 32); err != nil {
			return nil, fmt.Errorf("cannot parse /etc/group: line %d has no group id", n+1)
		}
		members := slices.DeleteFunc(strings.Split(f[3], ","), func(s string) bool { return s == "" })
		slices.Sort(members)
		all = append(all, f[0]+":"+f[2]+":"+strings.Join(members, ","))
	}
	return all, nil
}

// States of an account's password.
const (
	LoginLocked = "locked"
	LoginOpen   = "none" // nobody is asked for a password
)

// Logins returns the state of each account's password: LoginLocked, LoginOpen, or a digest of the
// salted hash, which does not reveal the password.
func (m *Machine) Logins() (map[string]string, error) {
	raw, err := m.ReadFile("/etc/shadow", 4<<20)
	if err != nil {
		return nil, fmt.Errorf("cannot read logins: %w", err)
	}
	return parseShadow(string(raw))
}

func parseShadow(text string) (map[string]string, error) {
	all := map[string]string{}
	for n, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, ":")
		if len(f) < 2 || f[0] == "" {
			return nil, fmt.Errorf("cannot parse /etc/shadow: line %d is not an account", n+1)
		}
		switch {
		case f[1] == "":
			all[f[0]] = LoginOpen
		case strings.HasPrefix(f[1], "!"), strings.HasPrefix(f[1], "*"):
			all[f[0]] = LoginLocked
		default:
			sum := sha256.Sum256([]byte(f[0] + ":" + f[1]))
			all[f[0]] = hex.EncodeToString(sum[:16])
		}
	}
	return all, nil
}

// Expiry returns the moment from which an account lets nobody in, by /etc/shadow. ok is false if
// the account never expires. A field that is no number is an error: the account may have expired.
func (m *Machine) Expiry(name string) (at time.Time, ok bool, err error) {
	raw, err := m.ReadFile("/etc/shadow", 4<<20)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("cannot read when accounts expire: %w", err)
	}
	const expires = 7 // in days since 1970
	for line := range strings.Lines(string(raw)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if f[0] != name {
			continue
		}
		if len(f) <= expires || f[expires] == "" {
			return time.Time{}, false, nil
		}
		days, err := strconv.ParseInt(f[expires], 10, 32)
		if err != nil {
			return time.Time{}, false, fmt.Errorf("cannot parse /etc/shadow: the expiry day of account %s is not a number", name)
		}
		return time.Unix(days*24*60*60, 0), days >= 0, nil
	}
	return time.Time{}, false, nil
}

// RootGroups are the groups whose members are root in all but name.
var RootGroups = []string{"root", "sudo", "wheel", "admin", "adm", "disk", "shadow", "docker", "lxd", "libvirt", "kmem", "staff"}
