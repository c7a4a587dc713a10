package machine

import (
	"fmt"
	"strconv"
	"strings"
)

// User is a line of /etc/passwd.
type User struct {
	Name  string
	UID   uint32
	GID   uint32
	Home  string
	Shell string
}

// Users reads /etc/passwd, the file that useradd changes; accounts of a directory service are not
// listed. A line that cannot be parsed is an error, since a login could hide there.
func (m *Machine) Users() ([]User, error) {
	raw, err := m.ReadFile("/etc/passwd", 4<<20)
	if err != nil {
		return nil, fmt.Errorf("cannot read accounts: %w", err)
	}
	return parsePasswd(string(raw))
}

func parsePasswd(text string) ([]User, error) {
	var all []User
	for n, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, ":")
		if len(f) != 7 || f[0] == "" {
			return nil, fmt.Errorf("cannot parse /etc/passwd: line %d is not an account", n+1)
		}
		uid, err1 := strconv.ParseUint(f[2], 10, 32)
		gid, err2 := strconv.ParseUint(f[3], 10, 32)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("cannot parse /etc/passwd: line %d has no user and group id", n+1)
		}
		all = append(all, User{Name: f[0], UID: uint32(uid), GID: uint32(gid), Home: f[5], Shell: f[6]})
	}
	return all, nil
}

// UserNamed finds an account by name.
func (m *Machine) UserNamed(name string) (User, bool, error) {
	users, err := m.Users()
	for _, u := range users {
		if u.Name == name {
			return u, true, err
		}
	}
	return User{}, false, err
}
