package maassim

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Region is a simulated MAAS region. Set its exported fields before first use and do not change
// them afterwards; methods change what may change at run time. A Region is an http.Handler and safe
// for concurrent use.
type Region struct {
	Version  string // 3.4, 3.5, 3.6 or a full version such as 3.4.10; 3.6.5 where empty
	Seed     uint64 // of every generated id, token and name
	Timing   Timing // Usual where zero
	Networks []Network
	Images   []Image
	Scripts  []Script

	// Now is the region's clock. OAuthNow is the clock that checks request timestamps. A client
	// signs with the real clock, so a region with a simulated clock sets both. Nil means time.Now
	// for Now, and Now for OAuthNow.
	Now, OAuthNow func() time.Time
	// Sleep waits before a slow answer; nil means the real clock. An error ends the call as a lost
	// connection.
	Sleep func(context.Context, time.Duration) error

	once   sync.Once
	mu     sync.Mutex
	moment time.Time // the time of the current action; never goes back
	rand   *rand.Rand
	routes *http.ServeMux

	agenda   agenda
	order    int
	metals   map[string]*metal // by BMC address
	machines []*machine        // in the order of their ids, as lists are
	lastID   map[string]int    // the last id of each kind
	users    []*user
	nonces   map[string]time.Time
	// noncesLeft is the number of nonces after the last scan for old nonces.
	noncesLeft int
	settings   map[string]any
	fabrics    []*fabric
	subnets    []*subnet
	pools      []pool
	// deployedImages maps an image to the time of its last installation.
	deployedImages map[string]time.Time
	events         []event
	noRack         bool
	noDHCP         bool

	faults  []*armed
	calls   []Call
	changes []Change
	caller  *user // the user whose call is carried out
}

// begin sets defaults and creates the region's initial objects.
func (r *Region) begin() {
	if r.Now == nil {
		r.Now = time.Now
	}
	if r.OAuthNow == nil {
		r.OAuthNow = r.Now
	}
	if r.Sleep == nil {
		r.Sleep = sleep
	}
	if r.Timing == (Timing{}) {
		r.Timing = Usual
	}
	if r.Networks == nil {
		r.Networks = []Network{{CIDR: "10.10.0.0/24", Gateway: "10.10.0.1", DHCP: true}}
	}
	if r.Images == nil {
		r.Images = []Image{{Name: "ubuntu/jammy"}, {Name: "ubuntu/noble"}, {Name: "custom/golden", Base: "ubuntu/jammy"}}
	}
	if r.Scripts == nil {
		r.Scripts = stockScripts
	}
	r.Version = release(r.Version)
	r.moment = r.Now()
	r.rand = rand.New(rand.NewPCG(r.Seed, 0x6d616173))
	r.metals = map[string]*metal{}
	r.lastID = map[string]int{"fabric": -1, "pool": -1}
	r.nonces = map[string]time.Time{}
	r.settings = stockSettings(r.Timing.NodeTimeout)
	r.deployedImages = map[string]time.Time{}
	r.pools = []pool{{"default", "Default pool", r.id("pool")}}
	for i := range r.Networks {
		r.lay(&r.Networks[i])
	}
	r.routes = r.mux()
	r.addUser("admin", true)
}

// release returns the full version for a short version.
func release(version string) string {
	switch version {
	case "3.4":
		return "3.4.10"
	case "3.5":
		return "3.5.13"
	case "3.6", "":
		return "3.6.5"
	}
	return version
}

// since reports whether the region has the given version, such as 3.5, or a later version.
func (r *Region) since(version string) bool { return r.Version[:3] >= version }

// id returns the next id of the kind.
func (r *Region) id(kind string) int {
	r.lastID[kind]++
	return r.lastID[kind]
}

// systemID returns an unused system_id: six lower-case letters and digits.
func (r *Region) systemID() string {
	for {
		id := r.letters("abcdefghkmnpqrstwxy346789", 6)
		if r.find(id) == nil {
			return id
		}
	}
}

func (r *Region) letters(of string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = of[r.rand.IntN(len(of))]
	}
	return string(b)
}

func (r *Region) uuid() string {
	b := make([]byte, 16)
	for i := range b {
		b[i] = byte(r.rand.UintN(256))
	}
	s := hex.EncodeToString(b)
	return s[:8] + "-" + s[8:12] + "-4" + s[13:16] + "-a" + s[17:20] + "-" + s[20:]
}

// find returns the machine with the system_id, nil if there is none.
func (r *Region) find(systemID string) *machine {
	for _, m := range r.machines {
		if m.systemID == systemID {
			return m
		}
	}
	return nil
}

// stamp formats a time for this version's bodies: without a zone up to 3.5, in UTC afterwards. The
// zero time is null.
func (r *Region) stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	form := "2006-01-02T15:04:05.000"
	if r.since("3.6") {
		form += "Z"
	}
	s := t.UTC().Format(form)
	return &s
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
