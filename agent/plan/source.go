package plan

import (
	"fmt"
	"slices"

	"github.com/hostler/hostler/taskcatalog"
)

// sourceKinds gives the kind of a source by the kind of a step, the argument from of
// artifact.pull_blob, or the type of a credential.
var sourceKinds = map[string]string{
	"artifact.pull_oci": "oci", "python.env.create": "pypi",
	"s3": "s3", "gcs": "gcs", "huggingface": "huggingface", "https_signed": "https_signed",
	taskcatalog.CredentialOCIPull: "oci", taskcatalog.CredentialS3Read: "s3", taskcatalog.CredentialGCSRead: "gcs",
	taskcatalog.CredentialHFToken: "huggingface",
}

// source judges what the step brings, or mints a credential for: the plan's list has it.
func (c *checker) source(kind taskcatalog.StepKind) string {
	s, argument := &c.plan.Steps[c.at], "source"
	of, _ := s.With["from"].Literal.(string)
	switch {
	case kind.Output == taskcatalog.StepSecret:
		of, _ = s.With["type"].Literal.(string)
		argument = "scope"
	case of == "":
		of = kind.Name
	}
	scheme, sourced := sourceKinds[of]
	if !sourced && !kind.Artifact {
		return ""
	}
	text, literal := s.With[argument].Literal.(string)
	if !sourced || !literal || c.plan.Artifacts == nil || !slices.ContainsFunc(c.plan.Artifacts.Sources, func(listed string) bool {
		return taskcatalog.SourceCovers(listed, scheme+":"+text)
	}) {
		return fmt.Sprintf("its %s is not on the plan's list of sources", argument)
	}
	return ""
}
