package profiles

import (
	"maps"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

var (
	ruleName  = lazyregexp.New(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	profileID = lazyregexp.New(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	factValue = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._:+-]{0,63}$`)
	lcName    = lazyregexp.New(`^LC_[A-Z]{1,20}$`)
)

// The bounds of a set.
const (
	maxRules    = 128
	maxCommands = 256
	maxValues   = 64 // of one key of a rule
)

// checker checks a set after reading.
type checker struct {
	set   *Set
	where places
	found Problems
	own   bool // compiled in: programs that change disks and long timeouts are permitted
}

// check finds all faults of a set by itself.
func check(set *Set, where places) Problems {
	c := &checker{set: set, where: where}
	if len(set.HardwareProfiles) > maxRules || len(set.CommandProfiles) > maxCommands {
		c.refuse(CodeTooMany, "", "there are more than %d rules or %d command profiles", maxRules, maxCommands)
		return c.found
	}
	used := map[string]bool{}
	names := map[string]bool{}
	fallback := ""
	for i := range set.HardwareProfiles {
		h, part := &set.HardwareProfiles[i], partOf("hardware_profiles", i)
		if !ruleName.MatchString(h.Name) {
			c.refuse(CodeBadName, part+"/name", "%s is no name of a rule (a-z, 0-9, '.', '_', '-', 64 at most)", quote(h.Name))
		}
		if names[h.Name] {
			c.refuse(CodeDuplicate, part+"/name", "there are two rules %s", quote(h.Name))
		}
		names[h.Name] = true
		c.match(part+"/match", h)
		c.overrides(part+"/overrides", h, used)
		if !h.fallback() {
			continue
		}
		if fallback != "" {
			c.refuse(CodeFallbackTwice, part, "rule %s matches everything, and so does %s: a set has one fallback", quote(h.Name),
				quote(fallback))
		}
		fallback = h.Name
	}
	if fallback == "" {
		c.refuse(CodeFallbackMissing, "", "no rule has an empty match: a set needs one fallback (match: {})")
	}
	c.reach()
	c.health()
	ids := map[string]bool{}
	for i := range set.CommandProfiles {
		p, part := &set.CommandProfiles[i], partOf("command_profiles", i)
		if ids[p.ID] {
			c.refuse(CodeDuplicate, part+"/id", "there are two command profiles %s", quote(p.ID))
		} else if !used[p.ID] {
			c.refuse(CodeUnusedProfile, part, "no rule uses command profile %s", quote(p.ID))
		}
		ids[p.ID] = true
		c.command(part, p)
	}
	return c.found.sorted()
}

func (c *checker) refuse(code taskcatalog.Code, part, format string, args ...any) {
	c.found.add(c.where.of("%s", part), code, format, args...)
}

func (c *checker) match(part string, h *HardwareProfile) {
	for _, key := range slices.Sorted(maps.Keys(h.Match)) {
		part, values := part+"/"+key, h.Match[key]
		known, ok := matchKeys[key]
		if !ok {
			c.refuse(CodeUnknownMatchKey, part, "%s is no fact to match on (%s)", quote(key), strings.Join(MatchKeys(), ", "))
			continue
		}
		if len(values) == 0 || len(values) > maxValues {
			c.refuse(CodeOutOfBounds, part, "%s wants 1 to %d values", key, maxValues)
		}
		seen := map[string]bool{}
		for _, v := range values {
			switch {
			case seen[v]:
				c.refuse(CodeDuplicateKey, part, "%s names %s twice", key, quote(v))
			case !factValue.MatchString(v):
				c.refuse(CodeUnknownMatchValue, part, "%s is no value of a fact", quote(v))
			case known != nil && !slices.Contains(known, v):
				c.refuse(CodeUnknownMatchValue, part, "%s is never %s (%s)", key, quote(v), strings.Join(known, ", "))
			}
			seen[v] = true
		}
	}
}

func (c *checker) overrides(part string, h *HardwareProfile, used map[string]bool) {
	for _, step := range slices.Sorted(maps.Keys(h.Overrides)) {
		part, target := part+"/"+step, h.Overrides[step]
		inputs, ok := stepInputs[step]
		if !ok {
			c.refuse(CodeUnknownStep, part, "%s is no step kind (%s)", quote(step), strings.Join(Steps(), ", "))
		}
		name, builtin := strings.CutPrefix(target, BuiltinPrefix)
		if builtin {
			if of, known := builtins[name]; !known {
				c.refuse(CodeUnknownBuiltin, part, "%s is no builtin (%s)", quote(name), strings.Join(Builtins(), ", "))
			} else if of != "" && of != step && ok {
				c.refuse(CodeWrongStep, part, "builtin %s does %s and not %s", name, of, step)
			}
			continue
		}
		used[target] = true
		p, known := c.set.Command(target)
		if !known {
			c.refuse(CodeUnknownProfile, part, "there is no command profile %s", quote(target))
			continue
		}
		for _, a := range p.ArgSchema {
			given, gives := inputs[a.Name]
			if ok && given != a.Type && (a.Required || gives) {
				c.refuse(CodeStepLacksArg, part, "command profile %s wants the %s %s, which %s does not give", target, a.Type,
					quote(a.Name), step)
			}
		}
	}
}

// maxCombinations bounds the work of one rule's reachability.
const maxCombinations = 512

// reach refuses a rule that no machine reaches: for every combination of its wanted values, an
// earlier rule matches first.
func (c *checker) reach() {
	for i := range c.set.HardwareProfiles {
		h := &c.set.HardwareProfiles[i]
		if h.fallback() {
			continue
		}
		var before []*HardwareProfile
		for j := range i {
			if e := &c.set.HardwareProfiles[j]; !e.fallback() && overlaps(e.Match, h.Match) {
				before = append(before, e)
			}
		}
		if by := coveredBy(h.Match, before); len(by) > 0 {
			c.refuse(CodeUnreachable, partOf("hardware_profiles", i), "rule %s is never reached: %s above it matches first", quote(h.Name),
				strings.Join(by, ", "))
		}
	}
}

// overlaps reports whether m has each key of e with a common value: only then can e certainly take
// a combination away from m.
func overlaps(e, m map[string]Values) bool {
	for key, values := range e {
		if !slices.ContainsFunc(m[key], func(v string) bool { return slices.Contains(values, v) }) {
			return false
		}
	}
	return true
}

// coveredBy returns the rules that together match every combination of m's values, or nil if a
// combination is left.
func coveredBy(m map[string]Values, before []*HardwareProfile) []string {
	keys := slices.Sorted(maps.Keys(m))
	combinations := 1
	for _, k := range keys {
		combinations *= max(len(m[k]), 1)
		if combinations > maxCombinations {
			// Too many combinations to try: a single earlier rule may still cover all.
			for _, e := range before {
				if coversAll(e.Match, m) {
					return []string{e.Name}
				}
			}
			return nil
		}
	}
	var by []string
	for n := range combinations {
		machine := map[string]string{}
		for _, k := range keys {
			if len(m[k]) > 0 {
				machine[k], n = m[k][n%len(m[k])], n/len(m[k])
			}
		}
		i := slices.IndexFunc(before, func(e *HardwareProfile) bool { return e.Matches(machine) })
		if i < 0 {
			return nil
		}
		if !slices.Contains(by, before[i].Name) {
			by = append(by, before[i].Name)
		}
	}
	return by
}

func coversAll(e, m map[string]Values) bool {
	for key, values := range e {
		if len(m[key]) == 0 || slices.ContainsFunc(m[key], func(v string) bool { return !slices.Contains(values, v) }) {
			return false
		}
	}
	return true
}
