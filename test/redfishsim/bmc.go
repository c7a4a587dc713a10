package redfishsim

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Make is the maker of a BMC.
type Make string

// The makers.
const (
	DMTF       Make = "DMTF"
	Dell       Make = "Dell"
	HPE        Make = "HPE"
	Supermicro Make = "Supermicro"
)

// Faults are the knobs for trouble.
type Faults struct {
	Ignore     bool   // resets are accepted, and nothing happens
	Forgets    bool   // a reset is carried out, and taken back when the machine has changed
	Hangs      bool   // no answer until the caller gives up
	Busy       int    // so many requests are answered 503
	Serial     string // the BMC is in another machine: its serial number
	UUID       string
	PowerState string // said whatever the power is; "null": the field has no value
	NoSessions bool   // Basic authentication alone
	Expires    bool   // a session ends after its first request
	Redirect   string // where GET of the systems is redirected to
	Link       string // link to the system, in place of the right one
	Long       bool   // answers of more than a megabyte
	Body       string // the answer about the system, in place of the right one
	Echo       bool   // a refusal repeats the request, with its login
}

// Request is a request that the BMC got.
type Request struct{ Method, Path, Body string }

// BMC is a BMC with its machine. Make a BMC with New.
type BMC struct {
	Make           Make
	User, Password string
	Serial, UUID   string
	PowerTime      time.Duration // which the machine needs to go on or off
	Now            func() time.Time

	mu       sync.Mutex
	faults   Faults
	on       bool
	target   bool      // where a change under way leads
	changes  time.Time // when the change under way ends; zero: none
	before   bool
	sessions map[string]bool
	count    int
	requests []Request
	boots    int
}

// New returns a BMC of a machine that is off.
func New(maker Make, now func() time.Time) *BMC {
	return &BMC{
		Make: maker, User: "root", Password: "s3cret-pw", Serial: "SER-0042", UUID: "4c4c4544-0033-4710-8032-c7c04f475931",
		Now: now, sessions: map[string]bool{},
	}
}

// Set changes the knobs.
func (b *BMC) Set(f Faults) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = f
}

// Press turns the machine on or off at the machine itself.
func (b *BMC) Press(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if on && !b.on {
		b.boots++
	}
	b.on, b.changes = on, time.Time{}
}

// Powered reports whether the machine has power.
func (b *BMC) Powered() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
	return b.on
}

// Boots counts how often the machine was switched on.
func (b *BMC) Boots() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
	return b.boots
}

// Sessions counts the open sessions.
func (b *BMC) Sessions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sessions)
}

// Requests lists the requests so far.
func (b *BMC) Requests() []Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Request(nil), b.requests...)
}

// settle ends a change whose time has come.
func (b *BMC) settle() {
	if b.changes.IsZero() || b.Now().Before(b.changes) {
		return
	}
	if b.target && !b.on {
		b.boots++
	}
	b.on, b.changes = b.target, time.Time{}
	if b.faults.Forgets && b.before != b.on {
		b.target, b.changes = b.before, b.Now().Add(b.PowerTime)
		if b.PowerTime == 0 {
			b.on, b.changes = b.before, time.Time{}
		}
	}
}

// begin starts a change.
func (b *BMC) begin(on bool) {
	if b.faults.Ignore {
		return
	}
	b.before, b.target, b.changes = b.on, on, b.Now().Add(b.PowerTime)
	b.settle()
}

// state is the word for the power.
func (b *BMC) state() any {
	switch {
	case b.faults.PowerState == "null":
		return nil
	case b.faults.PowerState != "":
		return b.faults.PowerState
	case !b.changes.IsZero() && b.target && !b.on:
		return "PoweringOn"
	case !b.changes.IsZero() && !b.target && b.on:
		return "PoweringOff"
	case b.on:
		return "On"
	}
	return "Off"
}

func (b *BMC) system() string {
	if b.Make == Dell {
		return "System.Embedded.1"
	}
	return "1"
}

// link is a path as the maker writes it.
func (b *BMC) link(path string) map[string]string {
	if b.Make == HPE {
		path += "/"
	}
	return map[string]string{"@odata.id": path}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("OData-Version", "4.0")
	raw, _ := json.Marshal(body)
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

// fail answers with an error as the specification has it.
func (b *BMC) fail(w http.ResponseWriter, status int, message string, request Request) {
	text := "See @Message.ExtendedInfo."
	if b.faults.Echo {
		text = "Refused: " + request.Body + " for " + b.User + ":" + b.Password
	}
	answer(w, status, map[string]any{"error": map[string]any{
		"code": "Base.1.8.GeneralError", "message": text,
		"@Message.ExtendedInfo": []map[string]any{{"MessageId": message, "Message": text, "Severity": "Warning"}},
	}})
}

// same compares two paths without their last slash.
func same(path, want string) bool { return strings.TrimSuffix(path, "/") == want }
