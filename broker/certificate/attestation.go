package certificate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Attestation is a person's statement about a part that no longer runs. No machine has signed any
// of its content, and every display of an attestation says so.
type Attestation struct {
	ID          string       `json:"certificate_id"`
	StatementOf string       `json:"statement_of"` // person
	Node        AttestedNode `json:"node"`
	Device      AttestedPart `json:"device"`
	Method      Method       `json:"method"` // destroyed or removed
	Witness     string       `json:"witness"`
	By          string       `json:"by"` // the operator who recorded the statement
	Reason      string       `json:"reason,omitempty"`
	IssuedAt    time.Time    `json:"issued_at"`
}

// AttestedNode is the machine that contained the part.
type AttestedNode struct {
	ID       string `json:"node_id"`
	Hostname string `json:"hostname"`
	Site     string `json:"site,omitempty"`
}

// AttestedPart is the part.
type AttestedPart struct {
	Kind   string `json:"kind"`
	Serial string `json:"serial"`
	UUID   string `json:"uuid,omitempty"` // of a GPU: several GPUs of one board may share a serial
	Model  string `json:"model,omitempty"`
}

// Attested is an attestation inside a certificate, beside the device concerned. Digest is the
// digest of the attestation's own file.
type Attested struct {
	Digest    string      `json:"digest"`
	Statement Attestation `json:"statement"`
}

// About reports whether the attestation concerns a device.
func (a *Attested) About(d *Device) bool {
	part := a.Statement.Device
	if part.Kind != d.Kind {
		return false
	}
	if part.UUID != "" {
		return part.UUID == d.UUID
	}
	return part.Serial != "" && (part.Serial == d.Serial || d.Serial == "" && part.Serial == d.UUID)
}

// attested requires that each attestation is complete and concerns this node and a missing
// device, and that each device with an attested method has its attestation in the certificate.
func (c *Clean) attested() error {
	wrong := func(format string, args ...any) error {
		return refuse(CodeAttestationWrong, "cannot accept certificate: "+format, args...)
	}
	said := map[string]bool{}
	for i := range c.Attested {
		a := &c.Attested[i]
		if err := a.Statement.check(); err != nil {
			return err
		}
		switch at := slices.IndexFunc(c.Devices, func(d Device) bool { return d.Attestation == a.Digest && a.About(&d) }); {
		case !digestForm.MatchString(a.Digest) || said[a.Digest]:
			return wrong("attestation %s has no digest, or is listed twice", a.Statement.ID)
		case a.Statement.Node.ID != c.Node.ID:
			return wrong("attestation %s is about node %s, and the certificate is about node %s", a.Statement.ID, a.Statement.Node.ID,
				c.Node.ID)
		case a.Statement.IssuedAt.After(c.IssuedAt):
			return wrong("attestation %s is newer than the certificate", a.Statement.ID)
		case at < 0 || c.Devices[at].Method != a.Statement.Method:
			return wrong("attestation %s is about no device that the certificate lists as %s", a.Statement.ID, a.Statement.Method)
		}
		said[a.Digest] = true
	}
	for _, d := range c.Devices {
		if d.Attestation != "" && !said[d.Attestation] {
			return wrong("%s %s is %s by an attestation that the certificate does not contain", d.Kind, d.Name(), d.Method)
		}
	}
	return nil
}

// Attest records a person's statement for a device that was not found, or adds a row for a device
// without one. A found device stays unchanged.
func (c *Clean) Attest(a Attested) {
	at := slices.IndexFunc(c.Devices, func(d Device) bool { return a.About(&d) })
	if at < 0 {
		part := a.Statement.Device
		c.Devices = append(c.Devices, Device{Kind: part.Kind, Serial: part.Serial, UUID: part.UUID, Model: part.Model, Expected: true})
		at = len(c.Devices) - 1
	}
	d := &c.Devices[at]
	if d.Found {
		return
	}
	d.Expected, d.Method, d.Verification, d.Attestation = true, a.Statement.Method, taskcatalog.OverwriteNone, a.Digest
	d.Verdict, d.Code, d.Message, d.TaskID = taskcatalog.VerdictInconclusive, "", "", "" // nobody has looked
	c.Attested = append(c.Attested, a)
}

// statementOfPerson marks an attestation.
const statementOfPerson = "person"

// Attest signs a person's statement and returns the file. Code: certificate_incomplete.
func Attest(a *Attestation, signer pki.Signer) ([]byte, error) {
	a.StatementOf = statementOfPerson
	return sign(a, signer)
}

func (a *Attestation) kind() string        { return PredicateAttestation }
func (a *Attestation) issuedAt() time.Time { return a.IssuedAt }

// about is the part.
func (a *Attestation) about() (name, sum string, err error) {
	part, err := taskcatalog.Encode(a.Device)
	if err != nil {
		return "", "", malformed("%v", err)
	}
	return "device/" + cmp.Or(a.Device.Serial, a.Device.UUID), hexSHA256(part), nil
}

func (a *Attestation) check() error {
	switch {
	case a.StatementOf != statementOfPerson, !name.MatchString(a.ID), !pki.ValidNodeID(a.Node.ID), a.IssuedAt.IsZero():
		return refuse(CodeIncomplete,
			"cannot use attestation: the attestation names no node or time, or is not marked as a person's statement")
	case !slices.Contains(kinds, a.Device.Kind), a.Device.Serial == "" && a.Device.UUID == "":
		return refuse(CodeIncomplete, "cannot use attestation: the attestation names no device by its serial number or uuid")
	case a.Method != MethodDestroyed && a.Method != MethodRemoved:
		return refuse(CodeIncomplete, "cannot use attestation: a person cannot attest %q (only destroyed or removed)", string(a.Method))
	case a.Witness == "" || a.By == "" || strings.EqualFold(a.Witness, a.By):
		return refuse(CodeIncomplete, "cannot use attestation: the witness must be another person than the one who records it")
	}
	return nil
}
