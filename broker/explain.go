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
	Image              string // that is installed; empty: not known
	Installable        bool   // MAAS can install another one
	Labels             map[string]string
	Place              NodePlace
	Reasons            []Reason
}

// Explanation says whether a request for whole nodes of a SKU would find them, and why nodes do not
// fit. Quotas are not looked at.
type Explanation struct {
	Site          string // of the nodes that would be claimed; empty: the request would be refused
	Refusal       *Error // nil: the request would find its nodes
	Fit, DoNotFit int
	Places        int               // racks, say, in which the nodes would stand, as Arrangement.Count counts; 0: no arrangement was asked for
	Reimages      int               // of the nodes that fit, those that get the image first
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

// Reasons of a request, beside those of Handout.
const (
	SiteNotOffered    = "site_not_offered"    // the SKU is not offered at the node's site
	Reserved          = "reserved"            // as many nodes are kept for other projects as have this reason
	ImageNotInstalled = "image_not_installed" // the node has another image, or one that is not known, and MAAS cannot install one
	LabelMissing      = "label_missing"       // the node lacks a label to which the project is pinned
)

// Free counts the nodes of a SKU that may be handed out, by site, where the SKU is offered.
func (s SKU) Free(nodes []JudgedNode) map[string]int {
	free := map[string]int{}
	for _, n := range nodes {
		if len(n.Reasons) == 0 && s.OfferedAt(n.Site) {
			free[n.Site]++
		}
	}
	return free
}

// OfferedAt reports whether the SKU is offered at a site.
func (s SKU) OfferedAt(site string) bool {
	return len(s.Offer.Sites) == 0 || slices.Contains(s.Offer.Sites, site)
}

// reserve gives the last of the free nodes at each site the reason that they are kept from a project.
// A reservation counts nodes and names none; a placement begins with the first, and with those that have the
// image. Nodes that do not suit the request count as kept before others.
func (s SKU) reserve(nodes []JudgedNode, kept Kept, projectID string, r AllocationRequest, suits func(JudgedNode) bool) []JudgedNode {
	nodes = slices.Clone(nodes)
	free := func(n JudgedNode) bool { return len(n.Reasons) == 0 && s.OfferedAt(n.Site) }
	left := map[string]int{}
	for _, n := range nodes {
		if !free(n) {
			continue
		}
		if _, known := left[n.Site]; !known {
			left[n.Site] = kept.From(projectID, n.Site)
		}
		if !suits(n) {
			left[n.Site]--
		}
	}
	for _, other := range []bool{true, false} {
		for i, n := range slices.Backward(nodes) {
			if !free(n) || !suits(n) || n.other(r) != other {
				continue
			}
			if left[n.Site]--; left[n.Site] >= 0 {
				nodes[i].Reasons = []Reason{{Code: Reserved, Next: "see for whom it is kept, and until when (hostler reservation list --sku " + s.ID + ")"}}
			}
		}
	}
	return nodes
}

// other reports whether the node has another image than a request asks for, or one that is not known.
func (n JudgedNode) other(r AllocationRequest) bool {
	return r.Image != "" && n.Image != ImageName(r.Image)
}

// unsuited returns the reasons against a node that come from the request and its project.
func (n JudgedNode) unsuited(r AllocationRequest, asks Project) (why []Reason) {
	if n.other(r) && !n.Installable {
		why = append(why, Reason{
			Code: ImageNotInstalled, Next: "ask without an image: only MAAS installs one, and the node is bound to no machine in MAAS, or MAAS at its site does not answer (hostler status)",
		})
	}
	if lacking := asks.Placement.Lacks(n.Labels); len(lacking) > 0 {
		why = append(why, Reason{Code: LabelMissing, Next: fmt.Sprintf(
			"label the node, if it is meant for the project (hostler node label %s %s)", n.ID, strings.Join(lacking, " "))})
	}
	return why
}

// Explain counts nodes of a SKU for a request of a project (zero: any without a reservation and without
// pinned labels). Nodes come ordered by site, as a placement looks at them.
func Explain(s SKU, r AllocationRequest, nodes []JudgedNode, kept Kept, asks Project) (out Explanation) {
	reasons, sites := map[string]*ExplainedReason{}, map[string]*ExplainedSite{}
	installed := map[string]int{} // by site, the nodes that fit as they are
	suits := func(n JudgedNode) bool { return len(n.unsuited(r, asks)) == 0 }
	for _, n := range s.reserve(nodes, kept, asks.ID, r, suits) {
		at := sites[n.Site]
		if at == nil {
			at = &ExplainedSite{Site: n.Site}
			sites[n.Site] = at
		}
		against := n.Reasons
		if !s.OfferedAt(n.Site) {
			against = append(slices.Clone(against), Reason{
				Code: SiteNotOffered, Next: fmt.Sprintf("offer the SKU there (hostler sku update %s --site %s, with its other sites)", s.ID, n.Site),
			})
		}
		against = append(slices.Clone(against), n.unsuited(r, asks)...)
		if len(against) == 0 && n.other(r) {
			out.Reimages++
		} else if len(against) == 0 {
			installed[n.Site]++
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
	out.place(s, r, installed, kept, asks.ID)
	if out.Site != "" && r.Level() != "" {
		out.Places = r.placesAt(out.Site, nodes, installed[out.Site] >= r.Nodes, suits)
	}
	return out
}

// placesAt counts the racks, say, in which the nodes of a request would stand at a site. asInstalled: enough nodes
// need no reimage, and the others are not looked at. Which nodes a reservation keeps is open, so that all count.
func (r AllocationRequest) placesAt(site string, nodes []JudgedNode, asInstalled bool, suits func(JudgedNode) bool) int {
	var words []string
	for _, n := range nodes {
		if n.Site == site && len(n.Reasons) == 0 && suits(n) && !(asInstalled && n.other(r)) {
			word, _ := Trait(Node{Place: n.Place, Labels: n.Labels}, r.Level())
			words = append(words, word)
		}
	}
	var of []string
	for _, i := range r.Choose(words, r.Nodes) {
		of = append(of, words[i])
	}
	return r.Count(of)
}

func (e *ExplainedReason) add(n JudgedNode, why Reason) {
	e.Nodes++
	if len(e.Examples) < maxExamples {
		e.Examples = append(e.Examples, ExplainedNode{n.ID, n.Hostname, n.Site, why.Next})
	}
}

// place sets the site of the nodes that would be claimed, or the refusal. A placement claims all nodes at
// the first site that has enough; first of all, where enough need no reimage. A site where a reservation of the
// project is not filled goes before the others.
func (e *Explanation) place(s SKU, r AllocationRequest, installed map[string]int, kept Kept, projectID string) {
	if err := cmp.Or(s.Offers(r), s.Places(r)); err != nil {
		e.Refusal = AsError(err)
		return
	}
	var have, enough, ready []string
	for _, at := range e.Sites {
		if installed[at.Site] >= r.Nodes {
			ready = append(ready, at.Site)
		}
		if at.Fit >= r.Nodes {
			enough = append(enough, at.Site)
		}
		have = append(have, fmt.Sprintf("%s has %d", at.Site, at.Fit))
	}
	if len(ready) == 0 {
		ready = enough
	}
	if len(ready) > 0 {
		e.Site = kept.OwnFirst(projectID, ready)[0]
		return
	}
	found := "there are no nodes of the SKU"
	if len(have) > 0 {
		found = strings.Join(have, ", ")
	}
	e.Refusal = r.Unavailable("no site has %s free: %s", r.nodes(), found)
}
