package broker

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// figures say how good a choice is; smaller is better, the first figure first.
func (a Arrangement) figures(words []string, chosen []int) []int {
	in, unknown, most := map[string]int{}, 0, 0
	for _, i := range chosen {
		if words[i] == "" {
			unknown++
			continue
		}
		in[words[i]]++
		most = max(most, in[words[i]])
	}
	if a.Pack != "" {
		return []int{len(in) + unknown}
	}
	return []int{unknown, -len(in), most}
}

// best tries every choice of n.
func (a Arrangement) best(words []string, n, from int, chosen []int) (best []int) {
	if len(chosen) == n {
		return a.figures(words, chosen)
	}
	for i := from; i < len(words); i++ {
		if f := a.best(words, n, i+1, append(slices.Clone(chosen), i)); f != nil && (best == nil || slices.Compare(f, best) < 0) {
			best = f
		}
	}
	return best
}

// No other choice of as many nodes is better than the one that is made.
func TestAnArrangementIsTheBestOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "c", "d"}), 0, 9).Draw(t, "words")
		n := rapid.IntRange(1, 9).Draw(t, "n")
		a := rapid.SampledFrom([]Arrangement{{Spread: "rack"}, {Pack: "rack"}}).Draw(t, "arrangement")
		chosen := a.Choose(words, n)
		if (chosen == nil) != (len(words) < n) {
			t.Fatalf("%v of %q: %v", n, words, chosen)
		}
		if chosen == nil {
			return
		}
		if sorted := slices.Sorted(slices.Values(chosen)); len(chosen) != n || len(slices.Compact(sorted)) != n {
			t.Fatalf("%d of %q: %v", n, words, chosen)
		}
		if got, want := a.figures(words, chosen), a.best(words, n, 0, nil); !slices.Equal(got, want) {
			t.Fatalf("%v: %d of %q: %v has %v, and the best has %v", a, n, words, chosen, got, want)
		}
		if of := a.wordsOf(words, chosen); a.Pack != "" && a.Count(of) != a.figures(words, chosen)[0] || a.Spread != "" && a.Count(of) != -a.figures(words, chosen)[1] {
			t.Fatalf("%v: %q count as %d", a, of, a.Count(of))
		}
	})
}

func (a Arrangement) wordsOf(words []string, chosen []int) (of []string) {
	for _, i := range chosen {
		of = append(of, words[i])
	}
	return of
}

func TestAnArrangementKeepsTheOrderOfEquals(t *testing.T) {
	words := []string{"", "a", "a", "b", "a", "b", ""}
	for name, c := range map[string]struct {
		a    Arrangement
		n    int
		want []int
	}{
		"none":                      {Arrangement{}, 3, []int{0, 1, 2}},
		"spread":                    {Arrangement{Spread: "rack"}, 3, []int{1, 3, 2}},
		"spread, the unknown last":  {Arrangement{Spread: "rack"}, 6, []int{1, 3, 2, 5, 4, 0}},
		"packed where it just fits": {Arrangement{Pack: "rack"}, 2, []int{3, 5}},
		"packed into the largest":   {Arrangement{Pack: "rack"}, 4, []int{1, 2, 4, 0}},
	} {
		if got := c.a.Choose(words, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestAnArrangementIsOfOneKnownPart(t *testing.T) {
	for _, a := range []Arrangement{{Spread: "rack", Pack: "rack"}, {Spread: "unit"}, {Pack: "x"}} {
		if code := AsError(a.Check()).Code; code != "allocation_invalid" {
			t.Errorf("%+v: %s", a, code)
		}
	}
	for _, a := range []Arrangement{{}, {Spread: "domain"}, {Pack: "zone"}} {
		if err := a.Check(); err != nil {
			t.Errorf("%+v: %v", a, err)
		}
	}
}
