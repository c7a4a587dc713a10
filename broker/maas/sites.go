package maas

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/hostler/hostler/broker"
)

// Sites provides the region of each site. One Sites serves a whole broker, so that a site's
// machines are listed once for all callers. It is safe for concurrent use.
type Sites struct {
	Secrets Keeper
	Now     func() time.Time
	// Transport is the way to a site; nil: the network. Tests put a simulated region here.
	Transport func(broker.Site) http.RoundTripper

	mu      sync.Mutex
	regions map[string]siteRegion // by site id
}

type siteRegion struct {
	region          *Region
	address, caCert string
}

// Region returns a site's region with the current token: a new token counts from the next call on.
// Codes: Token's, and site_invalid.
func (s *Sites) Region(ctx context.Context, site broker.Site) (*Region, error) {
	key, err := Token(ctx, s.Secrets, site)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k, had := s.regions[site.ID]
	same := had && k.address == site.APIBaseURL && k.caCert == site.CACert
	if same && k.region.key.equal(key) {
		return k.region, nil
	}
	region, err := s.Open(site, key)
	if err != nil {
		return nil, err
	}
	if same { // another key of the same region sees the same machines
		region.roster, region.bmcRoster = k.region.roster, k.region.bmcRoster
		region.waitRoster, region.waits = k.region.waitRoster, k.region.waits
		region.transport, region.patient = k.region.transport, k.region.patient
	}
	if s.regions == nil {
		s.regions = map[string]siteRegion{}
	}
	s.regions[site.ID] = siteRegion{region, site.APIBaseURL, site.CACert}
	return region, nil
}

// Open makes the region of a site with a key that is not stored, to try the key.
func (s *Sites) Open(site broker.Site, key Key) (*Region, error) {
	o := Options{BaseURL: site.APIBaseURL, Key: key, CACert: site.CACert, Now: s.Now}
	if s.Transport != nil {
		o.Transport = s.Transport(site)
	}
	return Open(o)
}
