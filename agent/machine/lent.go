package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// UIDs are the user ids of an account: its own, and the ids that /etc/subuid lends for containers.
type UIDs struct {
	Own  uint32
	Lent []UIDRange
}

// UIDRange is a range of user ids.
type UIDRange struct{ First, Count uint32 }

func (r UIDRange) has(uid uint32) bool { return uid >= r.First && uid-r.First < r.Count }

// Has reports whether uid belongs to the account.
func (u UIDs) Has(uid uint32) bool {
	return uid == u.Own || slices.ContainsFunc(u.Lent, func(r UIDRange) bool { return r.has(uid) })
}

// Bounds of an account's lent ids: above all accounts and services, and no more than a few times as
// many as useradd gives.
const (
	firstLent = 1 << 16
	mostLent  = 1 << 20
)

// UIDsOf returns the user ids of the account name with the id own. A range that overlaps another
// account's, or that useradd would never give, is left out and reported as an error: a former root
// may have written the line, and the caller ends and removes everything with these ids.
func (m *Machine) UIDsOf(name string, own uint32) (UIDs, error) {
	ids := UIDs{Own: own}
	raw, err := m.ReadFile("/etc/subuid", 4<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return ids, nil
	}
	if err != nil {
		return ids, fmt.Errorf("cannot read the subordinate uids: %w", err)
	}
	users, err := m.Users()
	if err != nil {
		return ids, err
	}
	var others []UIDRange
	for _, u := range users {
		if u.UID != own {
			others = append(others, UIDRange{u.UID, 1})
		}
	}
	var mine []UIDRange
	for line := range strings.Lines(string(raw)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 {
			continue
		}
		first, err1 := strconv.ParseUint(f[1], 10, 32)
		count, err2 := strconv.ParseUint(f[2], 10, 32)
		r := UIDRange{uint32(first), uint32(count)}
		switch of := f[0] == name || f[0] == strconv.FormatUint(uint64(own), 10); {
		case !of && errors.Join(err1, err2) == nil:
			others = append(others, r)
		case !of:
		case errors.Join(err1, err2) != nil || r.First < firstLent || count > mostLent || first+count >= unusedUID:
			err = errors.Join(err,
				fmt.Errorf("/etc/subuid assigns %s the uids %s:%s, which are not a valid range of subordinate uids (reimage the node)",
					name, f[1], f[2]))
		default:
			mine = append(mine, r)
		}
	}
	for _, r := range mine {
		if slices.ContainsFunc(others, func(o UIDRange) bool { return r.has(o.First) || o.has(r.First) }) {
			err = errors.Join(err, fmt.Errorf("/etc/subuid assigns %s the uids %d:%d, which another account has as well (reimage the node)",
				name, r.First, r.Count))
			continue
		}
		ids.Lent = append(ids.Lent, r)
	}
	return ids, err
}
