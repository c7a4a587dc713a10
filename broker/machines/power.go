package machines

import (
	"context"
	"encoding/hex"
	"strings"
)

// State is the power of a machine.
type State string

// The states. Unknown includes a machine that is about to change.
const (
	On      State = "on"
	Off     State = "off"
	Unknown State = "unknown"
)

// Power switches one machine. Errors have the codes bmc_unreachable, bmc_login_refused,
// bmc_untrusted, bmc_refused and bmc_answer_invalid. After bmc_unreachable and after
// bmc_answer_invalid the machine may have been switched nevertheless.
type Power interface {
	// Identity says which machine the outside system switches.
	Identity(ctx context.Context) (Identity, error)
	// State asks for the power of the machine now.
	State(ctx context.Context) (State, error)
	// TurnOn asks for power. The answer says only that the request was accepted.
	TurnOn(ctx context.Context) error
	// TurnOff takes the power away. If graceful is set, the machine's operating system is asked to
	// shut down, and may ignore it.
	TurnOff(ctx context.Context, graceful bool) error
}

// Codes of errors.
const (
	CodeUnreachable   = "bmc_unreachable"
	CodeLoginRefused  = "bmc_login_refused"
	CodeUntrusted     = "bmc_untrusted"
	CodeRefused       = "bmc_refused"
	CodeAnswerInvalid = "bmc_answer_invalid"
)

// Identity names a machine by what its firmware knows. An empty field is not known.
type Identity struct {
	Serial string // of the machine, as the vendor printed it
	UUID   string // of the system, in lower case
}

// MaxIdentity is the most bytes of a serial number.
const MaxIdentity = 128

// placeholders are the serial numbers of boards that nobody has written a number to.
var placeholders = []string{
	"", "none", "na", "unknown", "default", "defaultstring", "notspecified", "notavailable", "notapplicable", "systemserialnumber",
	"tobefilledbyoem", "empty", "invalid", "serialnumber", "sernum", "oem", "xxxxxxxxxx", "0123456789", "1234567890", "123456789",
}

// Serial is a serial number as it can be compared; empty: a placeholder, which is the same on many
// machines.
func Serial(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > MaxIdentity {
		return ""
	}
	for _, r := range text {
		if r <= ' ' && r != ' ' || r > '~' {
			return ""
		}
	}
	word := strings.Map(func(r rune) rune {
		if strings.ContainsRune(" ./-_", r) {
			return -1
		}
		return r
	}, strings.ToLower(text))
	for _, p := range placeholders {
		if word == p {
			return ""
		}
	}
	if word == strings.Repeat(word[:1], len(word)) { // 0000000
		return ""
	}
	return text
}

// UUID is a system's UUID in lower case; empty: none, or one that is the same on many machines.
func UUID(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	raw, ok := bytesOf(text)
	if !ok {
		return ""
	}
	same := true
	for _, b := range raw {
		same = same && b == raw[0]
	}
	if same || text == "03000200-0400-0500-0006-000700080009" { // of boards without a number
		return ""
	}
	return text
}

func bytesOf(text string) ([]byte, bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return nil, false
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	return raw, err == nil && len(raw) == 16
}

// Comparison is the result of comparing two identities.
type Comparison string

// The results. NotComparable: the two have no field in common.
const (
	SameMachine   Comparison = "same"
	OtherMachine  Comparison = "other"
	NotComparable Comparison = "not_comparable"
)

// Compare compares what a BMC says with what is known of a machine. One field that differs is
// another machine, whatever the other field says.
func Compare(said, known Identity) Comparison {
	result := NotComparable
	if a, b := Serial(said.Serial), Serial(known.Serial); a != "" && b != "" {
		if !strings.EqualFold(a, b) {
			return OtherMachine
		}
		result = SameMachine
	}
	if a, b := UUID(said.UUID), UUID(known.UUID); a != "" && b != "" {
		if a != b && swapped(a) != b {
			return OtherMachine
		}
		result = SameMachine
	}
	return result
}

// swapped is a UUID with its first three fields in the other byte order: SMBIOS has them in little
// endian since 2.6, and some BMCs print the bytes as they lie.
func swapped(text string) string {
	raw, ok := bytesOf(text)
	if !ok {
		return ""
	}
	for _, f := range [][]byte{raw[0:4], raw[4:6], raw[6:8]} {
		for i, j := 0, len(f)-1; i < j; i, j = i+1, j-1 {
			f[i], f[j] = f[j], f[i]
		}
	}
	s := hex.EncodeToString(raw)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// Login is a user and password of a BMC. Nothing prints it.
type Login struct{ user, password string }

// NewLogin returns a login.
func NewLogin(user, password string) Login { return Login{user, password} }

// Reveal returns user and password, for the BMC.
func (l Login) Reveal() (user, password string) { return l.user, l.password }

// String keeps the login out of printed text.
func (Login) String() string { return "[BMC login]" }

// GoString is String.
func (l Login) GoString() string { return l.String() }

// MarshalJSON keeps the login out of stored text.
func (Login) MarshalJSON() ([]byte, error) { return []byte(`"[BMC login]"`), nil }
