package command

import (
	"maps"
	"slices"

	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// CheckMachine judges the parts of a set that depend on the machine: the programs and accounts of
// the rule that wins for these facts. Programs of other rules never run here.
func (r *Runner) CheckMachine(set *profiles.Set, facts map[string]string) (rule string, problems []profiles.Problem) {
	h := set.Rule(facts)
	if h == nil {
		return "", nil
	}
	judged := map[string]bool{}
	for _, step := range slices.Sorted(maps.Keys(h.Overrides)) {
		p, ok := set.Command(h.Overrides[step])
		if !ok || judged[p.ID] {
			continue
		}
		judged[p.ID] = true
		if err := r.Check(p); err != nil {
			file, line := profiles.SplitPlace(p.At)
			problems = append(problems, profiles.Problem{
				File: file, Line: line, Code: taskcatalog.CodeOf(err, CodeExecutableRefused),
				Message: taskcatalog.Clean("command profile "+p.ID+": "+err.Error(), 400),
			})
		}
	}
	return h.Name, problems
}

// Insecure reports whether a problem of CheckMachine is more than a missing program or account:
// somebody could replace the program.
func Insecure(p profiles.Problem) bool {
	return p.Code != CodeExecutableMissing && p.Code != CodeAccountUnknown
}
