package broker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// JudgedNode is a node of a SKU with the reasons against handing it out, as Handout gives them.
type JudgedNode struct {
	ID, Hostname, Site string
	Reasons            []Reason
}

// Explanation says whether a request for whole nodes of a SKU would find them, and why nodes do not
// fit. Quotas are not looked at.
type Explanation struct {
	Site          string // of the nodes that would be claimed; empty: the request would be refused
	Refusal       *Error // nil: the request would find its nodes
	Fit, DoNotFit int
	Sites         []ExplainedSite   // by name
	Reasons       []ExplainedReason // the most frequent first
}

// ExplainedSite counts the nodes of a site.
type ExplainedSite struct {
	Site          string
	Fit, DoNotFit int
}

// ExplainedReason is a reason for which nodes do not fit. A node may have several.
type ExplainedReason struct {
	Code     string
	Nodes    int
	Examples []ExplainedNode // of the first nodes, see maxExamples
}

// ExplainedNode is a node with the next action for a reason.
type ExplainedNode struct{ ID, Hostname, Site, Next string }

// maxExamples is how many nodes an Explanation names for a reason.
const maxExamples = 10

// SiteNotOffered is the reason against nodes at a site where the SKU is not offered. Other reasons
// are those of Handout.
const SiteNotOffered = "site_not_offered"

// Explain counts nodes of a SKU for a request. Nodes come ordered by site, as a placement looks at
// them.
func Explain(s SKU, r AllocationRequest, nodes []JudgedNode) (out Explanation) {
	reasons, sites := map[string]*ExplainedReason{}, map[string]*ExplainedSite{}
	for _, n := range nodes {
		at := sites[n.Site]
		if at == nil {
			at = &ExplainedSite{Site: n.Site}
			sites[n.Site] = at
		}
		against := n.Reasons
		if len(s.Offer.Sites) > 0 && !slices.Contains(s.Offer.Sites, n.Site) {
			against = append(slices.Clone(against), Reason{
				Code: SiteNotOffered, Next: fmt.Sprintf("offer the SKU there (hostler sku update %s --site %s, with its other sites)", s.ID, n.Site),
			})
		}
		if len(against) == 0 {
			at.Fit++
			out.Fit++
			continue
		}
		at.DoNotFit++
		out.DoNotFit++
		counted := map[string]bool{}
		for _, why := range against {
			if counted[why.Code] { // two devices are missing, say
				continue
			}
			counted[why.Code] = true
			if reasons[why.Code] == nil {
				reasons[why.Code] = &ExplainedReason{Code: why.Code}
			}
			reasons[why.Code].add(n, why)
		}
	}
	for _, site := range slices.Sorted(maps.Keys(sites)) {
		out.Sites = append(out.Sites, *sites[site])
	}
	for _, code := range slices.Sorted(maps.Keys(reasons)) {
		out.Reasons = append(out.Reasons, *reasons[code])
	}
	slices.SortStableFunc(out.Reasons, func(a, b ExplainedReason) int { return b.Nodes - a.Nodes })
	out.place(s, r)
	return out
}

func (e *ExplainedReason) add(n JudgedNode, why Reason) {
	e.Nodes++
	if len(e.Examples) < maxExamples {
		e.Examples = append(e.Examples, ExplainedNode{n.ID, n.Hostname, n.Site, why.Next})
	}
}

// place sets the site of the nodes that would be claimed, or the refusal. A placement claims all nodes at
// the first site that has enough.
func (e *Explanation) place(s SKU, r AllocationRequest) {
	if err := cmp.Or(s.Offers(r), s.Places(r)); err != nil {
		e.Refusal = AsError(err)
		return
	}
	var have []string
	for _, at := range e.Sites {
		if at.Fit >= r.Nodes {
			e.Site = at.Site
			return
		}
		have = append(have, fmt.Sprintf("%s has %d", at.Site, at.Fit))
	}
	found := "there are no nodes of the SKU"
	if len(have) > 0 {
		found = strings.Join(have, ", ")
	}
	e.Refusal = r.Unavailable("no site has %d nodes free: %s", r.Nodes, found)
}
