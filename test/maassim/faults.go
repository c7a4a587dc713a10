package maassim

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// Kind is a kind of trouble.
type Kind string

// Trouble with a call, before it is carried out: it changed nothing.
const (
	Unavailable Kind = "503 before the change"
	RackBusy    Kind = "503 with Retry-After 10"
	Conflicted  Kind = "409 with Retry-After 5"
	Internal    Kind = "500 text"
	ClockSkew   Kind = "401 by skew"
	KeyRevoked  Kind = "key revoked" // for good: of the caller
	ProxyPage   Kind = "200 with HTML from a proxy"
	Unreachable Kind = "connection refused"
)

// SlowRegion is a call that is looked at only after After, and then done as ever.
const SlowRegion Kind = "slow answer"

// Trouble with a call that was carried out all the same.
const (
	UnavailableAfter Kind = "503 after the change"
	GatewayTimeout   Kind = "504 with the operation carried out"
	InternalAfter    Kind = "500 text after the change"
	AnswerLost       Kind = "connection cut after the commit"
)

// Trouble with the machine. It strikes when the machine next gets to where it
// can; Op is not looked at.
const (
	PowerFails          Kind = "power fails"             // one switching of the power
	CommissioningFails  Kind = "commissioning fails"     // a script does
	CommissioningStalls Kind = "commissioning times out" // nothing is heard of the machine
	TestingFails        Kind = "testing fails"
	NoBootCard          Kind = "no BOSS disk"        // commissioning finds none
	TwoBootCards        Kind = "two BOSS disks"      // and finds another
	NoIDPath            Kind = "id_path empty"       // of each disk, at commissioning
	NoInterfaces        Kind = "interface_set empty" // after commissioning
	NoDisks             Kind = "boot_disk null"      // after commissioning
	NoStatusMessage     Kind = "status_message null"
	Ambiguous           Kind = "discovery ambiguity" // another New machine appears beside the one discovered
	DeployFails         Kind = "deployment fails"    // the installer reports so
	DatasourceFails     Kind = "datasource failure"  // installed, but the system never asks MAAS
	DeployDiesUnseen    Kind = "deploy 200, then failed without events"
	TokenLate           Kind = "token late" // After says how late
	TokenNever          Kind = "token never"
	NeverUp             Kind = "Deployed, never phones home"
	SyncStops           Kind = "last_sync stops" // After says when, counted from Deployed
	ReleaseHangs        Kind = "release hangs, then fails"
	EraseFails          Kind = "erase fails"
	EraseHangs          Kind = "erase never ends"
	EventsMissing       Kind = "events missing"      // the next one of the machine
	EventsUnordered     Kind = "events out of order" // the next one commits late, by After
)

// TokenKept is no trouble that was ever seen of a region, and no chance draws it: the
// machine's own token outlives its owner.
const TokenKept Kind = "token kept"

// PreseedFails is a deployment that MAAS refuses because it cannot render the machine's
// configuration: of an image, and so drawn by no chance.
const PreseedFails Kind = "preseed not rendered"

// What a person does behind everybody's back, right after the operation, or
// later by After.
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

// Faults are all kinds, for those who draw from them.
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
	Op      string // the operation it strikes at, as in Call.Op; each where empty
	Machine string // system_id, hostname, serial or BMC address; each where empty
	Skip    int    // how many matches pass first
	Times   int    // how often it strikes: once for 0, always below
	After   time.Duration
}

type armed struct {
	Fault
	seen, struck int
}

// Inject adds faults. Of several that match, the one added first strikes.
func (r *Region) Inject(faults ...Fault) {
	defer r.enter()()
	for _, f := range faults {
		r.faults = append(r.faults, &armed{Fault: f})
	}
}

// Relent takes back the faults of those kinds, all of them for none.
func (r *Region) Relent(kinds ...Kind) {
	defer r.enter()()
	r.faults = slices.DeleteFunc(r.faults, func(f *armed) bool { return len(kinds) == 0 || slices.Contains(kinds, f.Kind) })
}

// Draw is trouble of any kind, by chance alone: at one of the operations where it
// is of a call or a person, after up to three that go well.
func Draw(by *rand.Rand, ops ...string) Fault {
	f := Fault{Kind: Faults[by.IntN(len(Faults))], Skip: by.IntN(4), Times: 1 + by.IntN(2), After: time.Duration(by.IntN(300)) * time.Second}
	if len(ops) > 0 {
		f.Op = ops[by.IntN(len(ops))]
	}
	return f
}

// strike finds the fault of one of the kinds whose turn has come, nil if none.
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

// means reports whether the fault is about the machine.
func (f *Fault) means(m *machine) bool {
	if f.Machine == "" {
		return true
	}
	if m == nil {
		return false
	}
	h := m.metal()
	return slices.Contains([]string{m.systemID, m.hostname, m.powerParam("power_address")}, f.Machine) || (h != nil && h.Serial == f.Machine)
}

// strikes reports whether trouble of that kind now meets the machine.
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

// slowness is how long the region takes its time before it looks at a call.
func (r *Region) slowness(op string, req *http.Request) time.Duration {
	defer r.enter()()
	if f := r.strike(slow, op, r.find(req.PathValue("machine"))); f != nil {
		return f.After
	}
	return 0
}

const noConnections = "Unable to connect to any rack controller; no connections available."

// in is the answer of a call that gets no further than the door.
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

// out is what becomes of the answer of a call that was carried out.
func (f *armed) out(a answer) answer {
	switch f.kind() {
	case UnavailableAfter:
		return text(http.StatusServiceUnavailable, noConnections)
	case GatewayTimeout:
		return answer{code: http.StatusGatewayTimeout, ctype: textHTML, body: []byte("<html><head><title>504 Gateway Time-out</title></head></html>")}
	case InternalAfter:
		return text(http.StatusInternalServerError, "an unforeseen error")
	case AnswerLost:
		return answer{}
	}
	return a
}
