package broker

import (
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// Arrangement says how the nodes of an allocation stand to each other within their site. Spread and Pack name a part of
// places (PlaceLevels); at most one of them is set. The zero Arrangement asks for nothing.
type Arrangement struct {
	Spread string // over as many racks, say, as there are, with as equal numbers in each as possible
	Pack   string // into as few racks, say, as possible
}

// Level is the part of places that the arrangement looks at; empty: none.
func (a Arrangement) Level() string { return a.Spread + a.Pack }

// Check refuses an arrangement that nothing can follow. Code: allocation_invalid.
func (a Arrangement) Check() error {
	if a.Spread != "" && a.Pack != "" {
		return Errorf(Invalid, "allocation_invalid", "cannot both spread and pack nodes (leave one of them out)")
	}
	if a.Level() != "" && !slices.Contains(PlaceLevels, a.Level()) {
		return Errorf(Invalid, "allocation_invalid", "cannot spread or pack nodes by %q: nodes have %s", taskcatalog.Clean(a.Level(), 40),
			strings.Join(PlaceLevels, ", "))
	}
	return nil
}

// Choose picks n of the nodes whose words are given, in the order in which a placement prefers them. It returns their
// indexes; nil: there are fewer than n. A node without a word may stand anywhere: a spread takes it last, and a pack
// counts it as a place of its own.
func (a Arrangement) Choose(words []string, n int) []int {
	if len(words) < n {
		return nil
	}
	groups, unknown := grouped(words)
	switch {
	case a.Spread != "":
		return append(rounds(groups, n), unknown...)[:n]
	case a.Pack != "":
		for _, i := range unknown {
			groups = append(groups, []int{i})
		}
		return fewest(groups, n)
	}
	first := make([]int, n)
	for i := range first {
		first[i] = i
	}
	return first
}

// Count is the number of places in which nodes with these words stand, as far as it is certain: a spread counts known
// words, and a pack counts a node without a word as a place of its own.
func (a Arrangement) Count(words []string) int {
	groups, unknown := grouped(words)
	if a.Pack != "" {
		return len(groups) + len(unknown)
	}
	return len(groups)
}

// grouped returns the indexes of each word, by the first appearance of the words, and those of the nodes without a word.
func grouped(words []string) (groups [][]int, unknown []int) {
	at := map[string]int{}
	for i, word := range words {
		if word == "" {
			unknown = append(unknown, i)
			continue
		}
		g, known := at[word]
		if !known {
			g = len(groups)
			at[word], groups = g, append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups, unknown
}

// rounds takes one of each group in turn, up to n.
func rounds(groups [][]int, n int) (chosen []int) {
	for round := 0; ; round++ {
		before := len(chosen)
		for _, g := range groups {
			if round < len(g) && len(chosen) < n {
				chosen = append(chosen, g[round])
			}
		}
		if len(chosen) == before || len(chosen) == n {
			return chosen
		}
	}
}

// fewest takes n from as few groups as possible: the largest groups whole, and what is left from the smallest group
// that has it.
func fewest(groups [][]int, n int) (chosen []int) {
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b []int) int { return len(b) - len(a) })
	for len(chosen) < n {
		left, at := n-len(chosen), 0
		for i, g := range groups {
			if len(g) >= left && len(g) < len(groups[at]) {
				at = i
			}
		}
		g := groups[at]
		chosen = append(chosen, g[:min(left, len(g))]...)
		groups = slices.Delete(groups, at, at+1)
	}
	return chosen
}
