package inbox

import "github.com/hostler/hostler/taskcatalog"

// Allow is the node's own limit on signed tasks. It comes from the config file, which root owns; no
// signed task changes it.
type Allow string

// The settings, from narrow to wide.
const (
	AllowProbe    Allow = "probe"
	AllowMutating Allow = "mutating"
	AllowAll      Allow = "all"
)

// Valid reports whether a is a known setting.
func (a Allow) Valid() bool { return a == AllowProbe || a == AllowMutating || a == AllowAll }

// Permits reports whether a task of this class may run. An unknown class is not permitted.
func (a Allow) Permits(c taskcatalog.Class) bool {
	switch c {
	case taskcatalog.ClassProbe:
		return a.Valid()
	case taskcatalog.ClassMutating:
		return a == AllowMutating || a == AllowAll
	case taskcatalog.ClassDestructive:
		return a == AllowAll
	}
	return false
}
