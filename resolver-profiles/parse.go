package profiles

import (
	"fmt"
	"math"
	"path"

	"go.yaml.in/yaml/v4"
)

// File is one file of a set.
type File struct {
	Name string // for messages; its base name goes into the set
	Text []byte
}

// Parse reads a set from its files, in their order. Parse returns a set without problems, or nil
// and all problems.
func Parse(files ...File) (*Set, Problems) {
	var found Problems
	set, where := &Set{}, places{}
	size := 0
	for _, f := range files {
		size += len(f.Text)
	}
	switch {
	case len(files) == 0:
		found.add(place{}, CodeNoFiles, "there is no file to read")
	case size > MaxSize:
		found.add(place{file: files[0].Name}, CodeTooLarge, "the set is %d bytes; %d are taken", size, MaxSize)
	}
	if len(found) > 0 {
		return nil, found
	}
	where[""] = place{file: files[len(files)-1].Name, line: 1}
	for _, f := range files {
		r := &reader{file: f.Name, found: &found, where: where}
		if doc := r.document(f.Text); doc != nil {
			r.set(doc, set)
		}
	}
	// Format errors are reported first: checks of an incomplete set would report false problems.
	if len(found) == 0 {
		found = check(set, where)
	}
	if len(found) > 0 {
		return nil, found.sorted()
	}
	set.fallbackLast()
	if raw, err := set.Encode(); err != nil || len(raw) > MaxSize {
		found.add(where[""], CodeTooLarge, "the set is %d bytes of JSON; %d are taken", len(raw), MaxSize)
		return nil, found
	}
	return set, nil
}

// fallbackLast moves the fallback behind every other rule.
func (s *Set) fallbackLast() {
	for i, h := range s.HardwareProfiles {
		if h.fallback() {
			s.HardwareProfiles = append(append(s.HardwareProfiles[:i:i], s.HardwareProfiles[i+1:]...), h)
			return
		}
	}
}

func (r *reader) set(n *yaml.Node, s *Set) {
	r.mapping("", n, map[string]field{
		"hardware_profiles": {read: func(part string, n *yaml.Node) {
			r.list(part, n, func(_ string, n *yaml.Node) {
				part := fmt.Sprintf("hardware_profiles/%d", len(s.HardwareProfiles))
				s.HardwareProfiles = append(s.HardwareProfiles, r.hardware(part, n))
			})
		}},
		"command_profiles": {read: func(part string, n *yaml.Node) {
			r.list(part, n, func(_ string, n *yaml.Node) {
				part := fmt.Sprintf("command_profiles/%d", len(s.CommandProfiles))
				s.CommandProfiles = append(s.CommandProfiles, r.command(part, n))
			})
		}},
		"health": {read: func(part string, n *yaml.Node) { r.health(part, n, s) }},
	})
}

// placeOf returns a place in the form stored in the set.
func (r *reader) placeOf(n *yaml.Node) string { return fmt.Sprintf("%s:%d", path.Base(r.file), n.Line) }

func (r *reader) hardware(part string, n *yaml.Node) HardwareProfile {
	h := HardwareProfile{Match: map[string]Values{}, Overrides: map[string]string{}, At: r.placeOf(n)}
	r.mapping(part, n, map[string]field{
		"name": {r.into(&h.Name), true},
		"match": {func(part string, n *yaml.Node) {
			r.each(part, n, func(part string, key, value *yaml.Node) { h.Match[key.Value] = r.values(part, value) })
		}, true},
		"overrides": {func(part string, n *yaml.Node) {
			r.each(part, n, func(_ string, key, value *yaml.Node) { h.Overrides[key.Value], _ = r.text(value, false) })
		}, true},
	})
	return h
}

func (r *reader) values(part string, n *yaml.Node) (vs Values) {
	one := func(_ string, n *yaml.Node) {
		if v, ok := r.text(n, true); ok {
			vs = append(vs, v)
		}
	}
	if n.Kind == yaml.ScalarNode {
		one(part, n)
	} else {
		r.list(part, n, one)
	}
	return vs
}

func (r *reader) command(part string, n *yaml.Node) CommandProfile {
	c := CommandProfile{At: r.placeOf(n)}
	r.mapping(part, n, map[string]field{
		"id":              {r.into(&c.ID), true},
		"command":         {r.into(&c.Command), true},
		"base_args":       {r.texts(&c.BaseArgs), false},
		"env_passthrough": {r.texts(&c.EnvPassthrough), false},
		"user":            {r.into(&c.User), true},
		"timeout_seconds": {r.number(&c.TimeoutSeconds), true},
		"retries":         {r.number(&c.Retries), false},
		"expected_exit_codes": {func(part string, n *yaml.Node) {
			r.list(part, n, func(part string, n *yaml.Node) {
				var code int
				r.number(&code)(part, n)
				c.ExpectedExitCodes = append(c.ExpectedExitCodes, code)
			})
		}, false},
		"capture_stdout": {r.capture(&c.CaptureStdout), false},
		"capture_stderr": {r.capture(&c.CaptureStderr), false},
		"arg_schema": {func(part string, n *yaml.Node) {
			r.list(part, n, func(part string, n *yaml.Node) { c.ArgSchema = append(c.ArgSchema, r.arg(part, n)) })
		}, false},
	})
	return c
}

func (r *reader) arg(part string, n *yaml.Node) Arg {
	var a Arg
	bound := func(p **int64) func(string, *yaml.Node) {
		return func(_ string, n *yaml.Node) {
			if v, ok := r.integer(n); ok {
				*p = &v
			}
		}
	}
	r.mapping(part, n, map[string]field{
		"name":      {r.into(&a.Name), true},
		"type":      {r.into(&a.Type), true},
		"pattern":   {r.into(&a.Pattern), false},
		"minimum":   {bound(&a.Minimum), false},
		"maximum":   {bound(&a.Maximum), false},
		"max_items": {r.number(&a.MaxItems), false},
		"flag":      {r.into(&a.Flag), false},
		"join":      {r.into(&a.Join), false},
		"required":  {func(_ string, n *yaml.Node) { a.Required = r.boolean(n) }, false},
	})
	return a
}

func (r *reader) into(s *string) func(string, *yaml.Node) {
	return func(_ string, n *yaml.Node) { *s, _ = r.text(n, false) }
}

func (r *reader) texts(all *[]string) func(string, *yaml.Node) {
	return func(part string, n *yaml.Node) {
		r.list(part, n, func(_ string, n *yaml.Node) {
			v, _ := r.text(n, false)
			*all = append(*all, v)
		})
	}
}

func (r *reader) number(i *int) func(string, *yaml.Node) {
	return func(_ string, n *yaml.Node) {
		v, ok := r.integer(n)
		if ok && (v < math.MinInt32 || v > math.MaxInt32) {
			r.refuse(n, CodeOutOfBounds, "%d is too large a number", v)
		}
		*i = int(v)
	}
}

func (r *reader) capture(c *Capture) func(string, *yaml.Node) {
	return func(part string, n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" {
			if r.boolean(n) {
				*c = DefaultCapture
			}
			return
		}
		r.number((*int)(c))(part, n)
	}
}
