package certificate

import (
	"slices"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Attestation is a person's statement for a part that no longer runs. No machine
// has signed anything in it, and it says so wherever it is shown.
type Attestation struct {
	ID          string       `json:"certificate_id"`
	StatementOf string       `json:"statement_of"` // person
	Node        AttestedNode `json:"node"`
	Device      AttestedPart `json:"device"`
	Method      Method       `json:"method"` // destroyed or removed
	Witness     string       `json:"witness"`
	By          string       `json:"by"` // the operator who recorded it
	Reason      string       `json:"reason,omitempty"`
	IssuedAt    time.Time    `json:"issued_at"`
}

// AttestedNode is the machine that the part was in.
type AttestedNode struct {
	ID       string `json:"node_id"`
	Hostname string `json:"hostname"`
	Site     string `json:"site,omitempty"`
}

// AttestedPart is the part.
type AttestedPart struct {
	Kind   string `json:"kind"`
	Serial string `json:"serial"`
	Model  string `json:"model,omitempty"`
}

// statementOfPerson marks an attestation.
const statementOfPerson = "person"

// Attest signs a person's statement and returns the file.
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
	return "device/" + a.Device.Serial, hexSHA256(part), nil
}

func (a *Attestation) check() error {
	switch {
	case a.StatementOf != statementOfPerson, !name.MatchString(a.ID), !pki.ValidNodeID(a.Node.ID), a.IssuedAt.IsZero():
		return refuse(CodeIncomplete, "cannot use attestation: it names no node or time, or is not marked as a person's statement")
	case !slices.Contains(kinds, a.Device.Kind), a.Device.Serial == "":
		return refuse(CodeIncomplete, "cannot use attestation: it names no device by its serial")
	case a.Method != MethodDestroyed && a.Method != MethodRemoved:
		return refuse(CodeIncomplete, "cannot use attestation: %q is not what a person attests (destroyed or removed)", string(a.Method))
	case a.Witness == "" || a.By == "" || a.Witness == a.By:
		return refuse(CodeIncomplete, "cannot use attestation: it takes a witness beside who records it")
	}
	return nil
}
