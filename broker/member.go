package broker

import (
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Member is a person or a program that acts for a tenant at a place, with a role. A member that has
// ended stays on record. A person who signs in has roles by the rules of the broker's config, and none
// at a place, or below it, where the person is denied.
type Member struct {
	ID        string
	Subject   string // who the member is: the name of the member's token, or oidc:… of a person who signs in
	Place     Place
	Role      Role // empty: a denied person who was no member
	CreatedAt time.Time
	EndedAt   time.Time // zero: live
	DeniedAt  time.Time // of a person who signs in; zero: not denied
	EndReason string    // of the end or the denial
}

// SignedIn reports whether the member is a person who signs in.
func (m Member) SignedIn() bool { return strings.HasPrefix(m.Subject, SignedInPrefix) }

// SSHKey is a public key of a member, for the account of an allocation.
type SSHKey struct {
	ID          string
	MemberID    string
	Type        string // such as ssh-ed25519
	PublicKey   string // TYPE BASE64, without a comment
	Fingerprint string // SHA256:…, as ssh-keygen prints it
	Comment     string
	CreatedAt   time.Time
	EndedAt     time.Time // zero: live
}

// Quota is the most that a project may have of one SKU at the same time. A project without a quota
// of a SKU may have nothing of that SKU.
type Quota struct {
	ProjectID, SKU string
	Nodes, GPUs    int
	UpdatedAt      time.Time
}

var subjectForm = lazyregexp.New(`^([a-z0-9][a-z0-9._@-]{0,63}|` + SignedInPrefix + `[A-Za-z0-9._@|=+-]{1,59})$`)

// CheckSignsIn refuses a subject that is no person who signs in: an operator token ends when it is revoked.
// Code: member_invalid.
func CheckSignsIn(subject string) error {
	if (Member{Subject: subject}).SignedIn() && subjectForm.MatchString(subject) {
		return nil
	}
	return Errorf(Invalid, "member_invalid", "cannot deny %q: only a person who signs in is denied, by the name oidc:SUBJECT "+
		"(for anybody else: hostler member end, or hostler token revoke)", cleanText(subject))
}

// Check refuses an invalid member. Code: member_invalid.
func (m Member) Check() error {
	switch {
	case !subjectForm.MatchString(m.Subject):
		return Errorf(Invalid, "member_invalid", "cannot add member %q: a member's name is up to 64 of a-z, 0-9, '.', '_', '@' and '-', "+
			"or oidc:SUBJECT of a person who signs in",
			cleanText(m.Subject))
	case m.Place.OfPlatform():
		return Errorf(Invalid, "member_invalid", "cannot add member %s: a member belongs to an organisation or a project", m.Subject)
	}
	return m.Role.At(m.Place)
}
