package plan

import (
	"slices"

	"github.com/hostler/hostler/taskcatalog"
)

// source judges what the step brings, or mints a credential for: the plan's list has it.
func (c *checker) source(kind taskcatalog.StepKind) string {
	s := &c.plan.Steps[c.at]
	source, argument := taskcatalog.StepSource(s.Kind, s.With)
	if source == "" && !kind.Artifact {
		return ""
	}
	text, literal := s.With[argument].Literal.(string)
	if source == "" || !literal || c.plan.Artifacts == nil || !slices.ContainsFunc(c.plan.Artifacts.Sources, func(listed string) bool {
		return taskcatalog.SourceCovers(listed, source+":"+text)
	}) {
		return "has a " + argument + " that is not on the plan's list of sources"
	}
	return ""
}
