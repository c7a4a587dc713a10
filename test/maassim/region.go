package maassim

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Region is a MAAS region. Its exported fields are set before first use and then
// left alone; what may change while it runs has a method. It is an http.Handler
// and safe for concurrent use.
type Region struct {
	Version  string // 3.4, 3.5, 3.6 or all of it, such as 3.4.10; the newest of them where empty
	Seed     uint64 // of every id, token and name that the region makes up
	Timing   Timing // Usual where zero
	Networks []Network
	Images   []Image
	Scripts  []Script

	// Now is the region's clock, and OAuthNow the one that timestamps of requests
	// are held against. A client signs by the real clock, so a region that lives in
	// another time needs both. time.Now, and Now, where nil.
	Now, OAuthNow func() time.Time
	// Sleep is how a slow answer is waited for; by the real clock where nil. An
	// error ends the call as a lost connection.
	Sleep func(context.Context, time.Duration) error

	once   sync.Once
	mu     sync.Mutex
	moment time.Time // of what is happening now; never goes back
	rand   *rand.Rand
	routes *http.ServeMux

	agenda   agenda
	order    int
	metals   map[string]*metal // by BMC address
	machines []*machine        // by id, as lists are ordered
	lastID   map[string]int    // of each kind of thing
	users    []*user
	nonces   map[string]time.Time
	// noncesLeft is how many there were when those that are old were dropped last.
	noncesLeft int
	settings   map[string]any
	fabrics    []*fabric
	subnets    []*subnet
	pools      []pool
	// deployedImages is when each image was last installed.
	deployedImages map[string]time.Time
	events         []event
	noRack         bool
	noDHCP         bool

	faults  []*armed
	calls   []Call
	changes []Change
	caller  *user // whose call is carried out
}

// begin fills in what was left out and makes the region's first things.
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

// release is the full version for a short one.
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

// since reports whether the region is of that version or later, such as 3.5.
func (r *Region) since(version string) bool { return r.Version[:3] >= version }

// id is the next one of that kind.
func (r *Region) id(kind string) int {
	r.lastID[kind]++
	return r.lastID[kind]
}

// systemID is a fresh one: six lower-case letters and digits.
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

// find is the machine with that system_id, nil if there is none.
func (r *Region) find(systemID string) *machine {
	for _, m := range r.machines {
		if m.systemID == systemID {
			return m
		}
	}
	return nil
}

// stamp writes a time as this version's bodies have it: without a zone up to
// 3.5, in UTC afterwards. It is null for the zero time.
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
