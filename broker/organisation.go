package broker

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Organisation is a tenant: a customer that has projects, members and quotas. An organisation that
// has ended stays on record.
type Organisation struct {
	ID, Name  string
	CreatedAt time.Time
	EndedAt   time.Time // zero: live
}

// Project is a part of an organisation, with nodes, members and quotas of its own. A project that
// has ended stays on record.
type Project struct {
	ID, OrganisationID, Name string
	CreatedAt                time.Time
	EndedAt                  time.Time // zero: live
	Placement                ProjectPlacement
	Bindings                 OperationBindings // where the SKU of an allocation names none
}

// Place returns the place of the project.
func (p Project) Place() Place { return Place{OrganisationID: p.OrganisationID, ProjectID: p.ID} }

// Place is a place among the tenants: a project, or with an empty ProjectID a whole organisation.
// The zero Place is the platform, which is above all tenants.
type Place struct{ OrganisationID, ProjectID string }

// OfPlatform reports whether the place is the platform.
func (p Place) OfPlatform() bool { return p == Place{} }

// Covers reports whether place p is place other or contains it.
func (p Place) Covers(other Place) bool {
	switch {
	case p.OfPlatform():
		return true
	case p.ProjectID == "":
		return p.OrganisationID == other.OrganisationID
	}
	return p == other
}

// Prefixes of ids. No name of an organisation or a project begins like an id of one, so that a reference
// by id or by name has one meaning.
const (
	OrganisationPrefix = "org-"
	ProjectPrefix      = "prj-"
	MemberPrefix       = "mem-"
)

// NewTenantID makes an id that begins with prefix and sorts by time, to the microsecond. The
// milliseconds are digits of their own: earlier releases wrote those alone, and their ids still sort
// among the new ones.
func NewTenantID(prefix string, now time.Time) string {
	return fmt.Sprintf("%s%011x%03x%s", prefix, now.UnixMilli(), now.UnixMicro()%1000, strings.ToLower(rand.Text()[:10]))
}

var tenantNameForm = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,62}$`)

// CheckTenantName refuses a name that no organisation and no project can have. Code: name_invalid.
func CheckTenantName(name string) error {
	switch {
	case !tenantNameForm.MatchString(name):
		return Errorf(Invalid, "name_invalid", "cannot use the name %q: a name is 1 to 63 of a-z, 0-9 and '-', and begins with a letter or digit",
			cleanText(name))
	case strings.HasPrefix(name, OrganisationPrefix), strings.HasPrefix(name, ProjectPrefix):
		return Errorf(Invalid, "name_invalid", "cannot use the name %q: names that begin with %s or %s look like ids (choose another name)", name,
			OrganisationPrefix, ProjectPrefix)
	}
	return nil
}
