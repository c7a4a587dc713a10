package broker

import (
	"fmt"
	"slices"
	"strings"
)

// SKUShape says what a tenant gets of a node of a SKU.
type SKUShape string

// The shapes.
const (
	BareMetal SKUShape = "baremetal" // whole nodes
	GPUSlice  SKUShape = "gpu_slice" // a number of one node's GPUs
)

// SKUShapes lists all shapes.
var SKUShapes = []SKUShape{BareMetal, GPUSlice}

// Offer is a SKU's entry in the catalogue: what tenants may ask for. An offer is about new
// allocations only; a changed offer leaves existing allocations as they are.
type Offer struct {
	Shape SKUShape `json:"shape"`
	// AllowedCounts are the counts that a tenant may ask for: of nodes (bare metal), of GPUs
	// (slices). Empty: any count.
	AllowedCounts []int `json:"allowed_counts"`
	// Sites are the names of the sites where the SKU is offered. Empty: all sites.
	Sites []string `json:"sites"`
	// Images are the images that a tenant may choose. Empty: no choice, whatever the nodes have.
	Images []string `json:"images"`
}

// NewOffer is the offer of a new SKU: whole nodes, in any count, at all sites.
func NewOffer() Offer {
	return Offer{Shape: BareMetal, AllowedCounts: []int{}, Sites: []string{}, Images: []string{}}
}

// AllocationRequest is what a tenant asks for.
type AllocationRequest struct {
	SKU   string
	Nodes int    // whole nodes; 0: GPUs are asked for
	GPUs  int    // GPUs of one node; 0: nodes are asked for
	Site  string // a site's name; empty: any site
	Image string // one of the SKU's; empty: whatever the nodes have
	Arrangement
}

const (
	maxNodesAsked = 1000 // in one allocation
	maxOffered    = 100  // entries of a list of an offer
)

// fault says what is wrong with the offer of a SKU with a number of GPUs; empty: nothing.
func (o Offer) fault(gpus int) string {
	most := maxNodesAsked
	if o.Shape == GPUSlice {
		most = gpus
	}
	switch {
	case !slices.Contains(SKUShapes, o.Shape):
		return fmt.Sprintf("shape %q is neither baremetal nor gpu_slice", cleanText(string(o.Shape)))
	case o.Shape == GPUSlice && gpus == 0:
		return "shape gpu_slice needs machines with GPUs (gpu_count)"
	case len(o.AllowedCounts) > maxOffered || len(o.Sites) > maxOffered || len(o.Images) > maxOffered:
		return fmt.Sprintf("allowed_counts, sites and images have at most %d entries each", maxOffered)
	}
	for i, n := range o.AllowedCounts {
		if n < 1 || n > most || slices.Contains(o.AllowedCounts[:i], n) {
			return fmt.Sprintf("allowed_counts has %d, which is not between 1 and %d, or is listed twice", n, most)
		}
	}
	for i, site := range o.Sites {
		if !SiteNameForm.MatchString(site) || idForm.MatchString(site) || slices.Contains(o.Sites[:i], site) {
			return fmt.Sprintf("sites has %q, which is not a site's name, or is listed twice", cleanText(site))
		}
	}
	for i, image := range o.Images {
		if !seriesForm.MatchString(image) || slices.Contains(o.Images[:i], image) {
			return fmt.Sprintf("images has %q, which is not of a form such as ubuntu/noble or custom/IMAGE, or is listed twice",
				cleanText(image))
		}
	}
	return ""
}

// Offers refuses a request for what the SKU does not offer. The SKU without an id stands for a SKU
// that does not exist. The answer of Offers does not depend on the nodes that are free. A site that
// does not exist is the caller's to refuse: an offer without sites names none. Codes:
// sku_unavailable, and allocation_invalid for a request that no SKU could meet.
func (s SKU) Offers(r AllocationRequest) error {
	if s.ID == "" {
		return r.Unavailable("there is no SKU of that id")
	}
	o := s.Offer
	if r.Nodes < 0 || r.GPUs < 0 || (r.Nodes > 0) == (r.GPUs > 0) {
		return Errorf(Invalid, "allocation_invalid",
			"cannot allocate SKU %s: the request has %d nodes and %d gpus (ask for nodes of a baremetal SKU, or gpus of a gpu_slice SKU)",
			cleanText(r.SKU), r.Nodes, r.GPUs)
	}
	count, most, unit := r.Nodes, maxNodesAsked, "nodes"
	if o.Shape == GPUSlice {
		count, most, unit = r.GPUs, s.GPUCount, "GPUs"
	}
	switch {
	case count == 0 && o.Shape == GPUSlice:
		return r.Unavailable("the SKU is offered as slices of a node (ask for gpus)")
	case count == 0:
		return r.Unavailable("the SKU is offered as whole nodes (ask for nodes)")
	case count > most:
		return r.Unavailable("an allocation has at most %d %s", most, unit)
	case len(o.AllowedCounts) > 0 && !slices.Contains(o.AllowedCounts, count):
		return r.Unavailable("%d %s are not offered (offered counts: %s)", count, unit,
			strings.Trim(strings.ReplaceAll(fmt.Sprint(o.AllowedCounts), " ", ", "), "[]"))
	case r.Site != "" && len(o.Sites) > 0 && !slices.Contains(o.Sites, r.Site):
		return r.Unavailable("the SKU is not offered at %s", cleanText(r.Site)) // which sites there are is no tenant's to know
	case r.Image != "" && len(o.Images) == 0:
		return r.Unavailable("the SKU offers no choice of image (ask without an image)")
	case r.Image != "" && !slices.Contains(o.Images, r.Image):
		return r.Unavailable("image %s is not offered (offered images: %s)", cleanText(r.Image), strings.Join(o.Images, ", "))
	}
	return nil
}

// Places refuses a request that the SKU offers and that this release cannot meet. Code:
// sku_unavailable.
func (s SKU) Places(r AllocationRequest) error {
	if s.Offer.Shape != BareMetal {
		return r.Unavailable("this release does not place slices of a node")
	}
	return nil
}

// Reserves refuses a reservation of nodes that the SKU does not offer. Code: sku_unavailable.
func (s SKU) Reserves(r Reservation) error {
	no := func(format string, args ...any) error {
		return Errorf(Refused, "sku_unavailable", "cannot reserve SKU %s: "+format, append([]any{s.ID}, args...)...)
	}
	switch {
	case s.Offer.Shape != BareMetal:
		return no("it is offered as slices of a node, and reservations are of whole nodes")
	case r.Site != "" && !s.OfferedAt(r.Site):
		return no("it is not offered at %s (hostler sku update %s --site changes where)", cleanText(r.Site), s.ID)
	}
	return nil
}

// nodes names the nodes of the request for people.
func (r AllocationRequest) nodes() string {
	if r.Image == "" {
		return fmt.Sprintf("%d nodes", r.Nodes)
	}
	return fmt.Sprintf("%d nodes with image %s", r.Nodes, cleanText(r.Image))
}

// NoneFree is the refusal of a request for which no site has enough free nodes. Code: sku_unavailable.
func (r AllocationRequest) NoneFree() *Error {
	other := "for another site, or later"
	if r.Image != "" {
		other = "for another site, without an image, or later"
	}
	return r.Unavailable("no site has %s free (ask for fewer nodes, %s)", r.nodes(), other)
}

// Unavailable is the refusal of a request. Code: sku_unavailable.
func (r AllocationRequest) Unavailable(format string, args ...any) *Error {
	return Errorf(Refused, "sku_unavailable", "cannot allocate SKU %s: "+format, append([]any{cleanText(r.SKU)}, args...)...)
}
