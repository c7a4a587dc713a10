package broker

import (
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// Selector selects a set of nodes: all, a list of references, or key=value terms that must all
// hold. Deleted nodes are never selected.
type Selector struct {
	refs  []string
	terms [][2]string
}

// ParseSelector reads "all", "gpu-07,gpu-08" or "gpu.vendor=nvidia,site=dc1".
// Code: selector_invalid.
func ParseSelector(text string) (Selector, error) { return parseSelector(text, "NODE,NODE") }

// ParseGroup reads "all", "alc-1,alc-2" or "sku=h100.8gpu,tier=gold": allocations of a project.
// Code: selector_invalid.
func ParseGroup(text string) (Selector, error) { return parseSelector(text, "ALLOCATION,ALLOCATION") }

func parseSelector(text, list string) (Selector, error) {
	refuse := func(why string) (Selector, error) {
		return Selector{}, Errorf(Invalid, "selector_invalid", "cannot read the selector %q: %s (all, %s or key=value,key=value)",
			cleanText(text), why, list)
	}
	var s Selector
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		key, value, isTerm := strings.Cut(word, "=")
		switch {
		case word == "" || isTerm && key == "":
			return refuse("the selector has an empty part")
		case isTerm:
			s.terms = append(s.terms, [2]string{key, value})
		default:
			s.refs = append(s.refs, word)
		}
	}
	if len(s.refs) > 0 && len(s.terms) > 0 {
		return refuse("the selector mixes nodes and key=value terms")
	}
	if len(s.refs) == 1 && s.refs[0] == "all" {
		s.refs = nil
	}
	return s, nil
}

// Refs returns the references of a list as written: ids, prefixes of ids, hostnames. Nil: the
// selector does not list nodes.
func (s Selector) Refs() []string { return s.refs }

// Names reports whether a term of the selector has one of some keys.
func (s Selector) Names(keys ...string) bool {
	return slices.ContainsFunc(s.terms, func(t [2]string) bool { return slices.Contains(keys, t[0]) })
}

// String is the selector in the form that ParseSelector reads; equal selectors give equal
// strings.
func (s Selector) String() string {
	words := slices.Clone(s.refs)
	for _, t := range s.terms {
		words = append(words, t[0]+"="+t[1])
	}
	if len(words) == 0 {
		return "all"
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ",")
}

// Matches reports whether the selector selects a node. A reference matches only a whole id; a
// caller resolves other references first. A term's key is site, status, sku or hostname, a part of
// the node's place, a label, or a fact that the node reported. Reported values count for fact keys
// only, so that a node cannot invent a label.
func (s Selector) Matches(n Node) bool {
	if n.Status == Deleted {
		return false
	}
	if s.refs != nil {
		return slices.Contains(s.refs, n.ID)
	}
	for _, t := range s.terms {
		if got, ok := Trait(n, t[0]); !ok || got != t[1] {
			return false
		}
	}
	return true
}

// MatchesAllocation reports whether the selector selects an allocation. A reference matches a whole id. A term's key
// is site or sku, or a label.
func (s Selector) MatchesAllocation(a Allocation) bool {
	if s.refs != nil {
		return slices.Contains(s.refs, a.ID)
	}
	own := map[string]string{"site": a.Site, "sku": a.SKU}
	for _, t := range s.terms {
		got, ok := own[t[0]]
		if !ok {
			got, ok = a.Labels[t[0]]
		}
		if !ok || got != t[1] {
			return false
		}
	}
	return true
}

// Trait is the value that a selector's term is compared with: see Matches. A label with the name of
// a part of the place counts where that part is not known.
func Trait(n Node, key string) (value string, ok bool) {
	own := map[string]string{"site": n.Site, "status": string(n.Status), "sku": n.SKU, "hostname": n.Hostname}
	if value, ok = own[key]; ok {
		return value, true
	}
	if value, _ = n.Place.At(key); value != "" {
		return value, true
	}
	if value, ok = n.Labels[key]; !ok && taskcatalog.FactKey(key) {
		value, ok = n.Capabilities[key]
	}
	return value, ok
}
