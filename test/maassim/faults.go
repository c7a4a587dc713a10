package maassim

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// Kind is a kind of fault.
type Kind string

// Faults of a call that strike before the call is carried out: nothing changes.
const (
	Unavailable Kind = "503 before the change"
	RackBusy    Kind = "503 with Retry-After 10"
	Conflicted  Kind = "409 with Retry-After 5"
	Internal    Kind = "500 text"
	ClockSkew   Kind = "401 by skew"
	KeyRevoked  Kind = "key revoked" // of the caller, permanently
	ProxyPage   Kind = "200 with HTML from a proxy"
	Unreachable Kind = "connection refused"
)

// SlowRegion delays a call by After; the call is then carried out as usual.
const SlowRegion Kind = "slow answer"

// Faults of a call that was carried out all the same.
const (
	UnavailableAfter Kind = "503 after the change"
	GatewayTimeout   Kind = "504 with the operation carried out"
	InternalAfter    Kind = "500 text after the change"
	AnswerLost       Kind = "connection cut after the commit"
)

// Faults of a machine. Such a fault strikes when the machine next reaches the point of failure; Op
// is ignored.
const (
	PowerFails          Kind = "power fails"             // the next switching of the power
	CommissioningFails  Kind = "commissioning fails"     // a script fails
	CommissioningStalls Kind = "commissioning times out" // the machine reports nothing
	TestingFails        Kind = "testing fails"
	NoBootCard          Kind = "no BOSS disk"        // commissioning finds no boot disk
	TwoBootCards        Kind = "two BOSS disks"      // commissioning finds a second boot disk
	NoIDPath            Kind = "id_path empty"       // of each disk, at commissioning
	NoInterfaces        Kind = "interface_set empty" // after commissioning
	NoDisks             Kind = "boot_disk null"      // after commissioning
	NoStatusMessage     Kind = "status_message null"
	Ambiguous           Kind = "discovery ambiguity" // another New machine appears beside the one discovered
	DeployFails         Kind = "deployment fails"    // the installer reports the failure
	DatasourceFails     Kind = "datasource failure"  // installed, but the system never asks MAAS
	DeployDiesUnseen    Kind = "deploy 200, then failed without events"
	TokenLate           Kind = "token late" // After is the delay
	TokenNever          Kind = "token never"
	NeverUp             Kind = "Deployed, never phones home"
	SyncStops           Kind = "last_sync stops" // After is the time of the stop, counted from Deployed
	ReleaseHangs        Kind = "release hangs, then fails"
	EraseFails          Kind = "erase fails"
	EraseHangs          Kind = "erase never ends"
	EventsMissing       Kind = "events missing"      // the machine's next event
	EventsUnordered     Kind = "events out of order" // the machine's next event commits late, by After
)

// TokenKept makes the machine's own token outlive its owner. No real region was seen to do that,
// and Draw never draws it.
const TokenKept Kind = "token kept"

// PreseedFails makes MAAS refuse a deployment because it cannot render the machine's configuration.
// The cause is an image, so Draw never draws it.
const PreseedFails Kind = "preseed not rendered"

// Actions of a person behind everybody's back, right after the operation, or later by After.
const (
	DeletedByHand    Kind = "deleted by hand"
	TakenByHand      Kind = "owner changed by hand"
	MovedByHand      Kind = "pool changed by hand"
	LockedByHand     Kind = "locked by hand"
	ReadyByHand      Kind = "ready by hand"
	TokenRotated     Kind = "token rotated"
	PoweredOnByHand  Kind = "powered on by hand"
	PoweredOffByHand Kind = "powered off by hand"
)

// Faults are all kinds that Draw draws from.
var Faults = slices.Concat(slow, onTheWayIn, onTheWayOut, ofMachines, byHand)

var (
	slow        = []Kind{SlowRegion}
	onTheWayIn  = []Kind{Unavailable, RackBusy, Conflicted, Internal, ClockSkew, KeyRevoked, ProxyPage, Unreachable}
	onTheWayOut = []Kind{UnavailableAfter, GatewayTimeout, InternalAfter, AnswerLost}
	ofMachines  = []Kind{
		PowerFails, CommissioningFails, CommissioningStalls, TestingFails, NoBootCard, TwoBootCards, NoIDPath, NoInterfaces, NoDisks,
		NoStatusMessage, Ambiguous, DeployFails, DatasourceFails, DeployDiesUnseen, TokenLate, TokenNever, NeverUp, SyncStops,
		ReleaseHangs, EraseFails, EraseHangs, EventsMissing, EventsUnordered,
	}
	byHand = []Kind{DeletedByHand, TakenByHand, MovedByHand, LockedByHand, ReadyByHand, TokenRotated, PoweredOnByHand, PoweredOffByHand}
)

// Fault is trouble that waits for its moment.
type Fault struct {
	Kind    Kind
	Op      string // the operation to strike, as in Call.Op; any operation where empty
	Machine string // system_id, hostname, serial or BMC address; any machine where empty
	Skip    int    // number of matches that pass first
	Times   int    // number of strikes: once for 0, always below 0
	After   time.Duration
}

type armed struct {
	Fault
	seen, struck int
}

// Inject adds faults. If several faults match, the fault added first strikes.
func (r *Region) Inject(faults ...Fault) {
	defer r.enter()()
	for _, f := range faults {
		r.faults = append(r.faults, &armed{Fault: f})
	}
}

// Relent removes the faults of the given kinds; without kinds it removes all faults.
func (r *Region) Relent(kinds ...Kind) {
	defer r.enter()()
	r.faults = slices.DeleteFunc(r.faults, func(f *armed) bool { return len(kinds) == 0 || slices.Contains(kinds, f.Kind) })
}

// Draw returns a random fault that skips up to three matches. With ops, the fault strikes at a
// random operation of ops, unless the fault is a machine's.
func Draw(by *rand.Rand, ops ...string) Fault {
	f := Fault{
		Kind: Faults[by.IntN(len(Faults))], Skip: by.IntN(4), Times: 1 + by.IntN(2),
		After: time.Duration(by.IntN(300)) * time.Second,
	}
	if len(ops) > 0 {
		f.Op = ops[by.IntN(len(ops))]
	}
	return f
}

// strike returns the first fault of the kinds that is due, nil if none.
func (r *Region) strike(kinds []Kind, op string, m *machine) *armed {
	for _, f := range r.faults {
		spent := f.Times >= 0 && f.struck >= max(f.Times, 1)
		elsewhere := f.Op != "" && f.Op != op && !slices.Contains(ofMachines, f.Kind)
		if spent || elsewhere || !slices.Contains(kinds, f.Kind) || !f.means(m) {
			continue
		}
		if f.seen++; f.seen > f.Skip {
			f.struck++
			return f
		}
	}
	return nil
}

// means reports whether the fault applies to the machine.
func (f *Fault) means(m *machine) bool {
	if f.Machine == "" {
		return true
	}
	if m == nil {
		return false
	}
	h := m.metal()
	return slices.Contains([]string{m.systemID, m.hostname, m.powerParam("power_address")}, f.Machine) ||
		(h != nil && h.Serial == f.Machine)
}

// strikes reports whether a fault of the kind strikes the machine now, and returns the fault.
func (m *machine) strikes(kind Kind) (Fault, bool) {
	if f := m.region.strike([]Kind{kind}, "", m); f != nil {
		return f.Fault, true
	}
	return Fault{}, false
}

func (m *machine) hit(kind Kind) bool {
	_, hit := m.strikes(kind)
	return hit
}

func (f *armed) kind() Kind {
	if f == nil {
		return ""
	}
	return f.Kind
}

// slowness returns the region's delay before it handles a call.
func (r *Region) slowness(op string, req *http.Request) time.Duration {
	defer r.enter()()
	if f := r.strike(slow, op, r.find(req.PathValue("machine"))); f != nil {
		return f.After
	}
	return 0
}

const noConnections = "Unable to connect to any rack controller; no connections available."

// in returns the answer of a call that the fault stops before it is carried out.
func (f *armed) in(c *call) (answer, bool) {
	switch f.kind() {
	case Unavailable:
		return text(http.StatusServiceUnavailable, noConnections), true
	case RackBusy:
		return retryAfter(http.StatusServiceUnavailable, 10, noConnections), true
	case Conflicted:
		return retryAfter(http.StatusConflict, 5, "The request conflicted with another; try again."), true
	case Internal:
		return text(http.StatusInternalServerError, "an unforeseen error"), true
	case ClockSkew:
		now := c.OAuthNow()
		return *expired(now.Add(-2*skewAllowed).Unix(), now), true
	case KeyRevoked:
		if u, _, _ := c.authenticate(c.req); u != nil {
			u.revoked = true
		}
		return *refusedKey("Invalid API key."), true
	case ProxyPage:
		return answer{code: http.StatusOK, ctype: textHTML, body: []byte("<html><body><h1>Please sign in</h1></body></html>")}, true
	case Unreachable:
		return answer{}, true
	}
	return answer{}, false
}

// out returns the answer of a call that was carried out, as the fault alters it.
func (f *armed) out(a answer) answer {
	switch f.kind() {
	case UnavailableAfter:
		return text(http.StatusServiceUnavailable, noConnections)
	case GatewayTimeout:
		return answer{
			code: http.StatusGatewayTimeout, ctype: textHTML,
			body: []byte("<html><head><title>504 Gateway Time-out</title></head></html>"),
		}
	case InternalAfter:
		return text(http.StatusInternalServerError, "an unforeseen error")
	case AnswerLost:
		return answer{}
	}
	return a
}
