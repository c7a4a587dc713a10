package taskcatalog

import (
	"fmt"
	"slices"
	"strings"
)

// sourceKinds are the kinds of sources that artifacts come from.
var sourceKinds = []string{"oci", "s3", "gcs", "huggingface", "https_signed", "pypi"}

// SourceListFault says why a text cannot stand on a list of sources; empty: it can. A listed source
// is KIND:PREFIX, such as s3:models/public, and covers whatever lies below it. It has the spelling of
// CanonicalSource: whoever reads two lists sees whether they speak of one place.
func SourceListFault(listed string) string {
	kind, path, _ := strings.Cut(listed, ":")
	switch {
	case len(listed) > 512 || Clean(listed, 512) != listed:
		return "is longer than 512 bytes, or has characters that cannot be shown"
	case !slices.Contains(sourceKinds, kind), !cleanSourcePath(path):
		return fmt.Sprintf("is no source: KIND:PREFIX, with the kinds %s and %s",
			strings.Join(sourceKinds[:len(sourceKinds)-1], ", "), sourceKinds[len(sourceKinds)-1])
	case strings.Contains(path, "*"):
		return "has a '*': a source covers whatever lies below it (leave the '*' out)"
	}
	if one := CanonicalSource(listed); one != listed {
		return "is another spelling of " + one + " (write it so)"
	}
	if registry, _, _ := strings.Cut(path, "/"); kind == "oci" && !IsRegistry(registry) {
		return "has no registry HOST[:PORT]"
	}
	return ""
}

// SourceCovers reports whether a source (KIND:PATH) is the listed one, or lies below it: s3:models/public
// covers s3:models/public/llama, and neither s3:models/public-of-others nor s3:models/public/../private. A
// repository of Hugging Face covers its revisions: huggingface:owner/model covers
// huggingface:owner/model@main/weights. The spelling of a registry makes no difference.
func SourceCovers(listed, source string) bool {
	kind, path, _ := strings.Cut(source, ":")
	listed, source = CanonicalSource(listed), CanonicalSource(source)
	return cleanSourcePath(path) && (source == listed || strings.HasPrefix(source, listed+"/") ||
		kind == "huggingface" && strings.HasPrefix(source, listed+"@"))
}

// cleanSourcePath reports whether each part of a path between '/' is there, and neither . nor ..
func cleanSourcePath(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "\\?#%\t ") {
			return false
		}
	}
	return true
}

// sourceOf gives the kind of a source by the kind of a step, the argument from of artifact.pull_blob, or the
// type of a credential.
var sourceOf = map[string]string{
	"artifact.pull_oci": "oci", "python.env.create": "pypi",
	"s3": "s3", "gcs": "gcs", "huggingface": "huggingface", "https_signed": "https_signed",
	CredentialOCIPull: "oci", CredentialS3Read: "s3", CredentialGCSRead: "gcs", CredentialHFToken: "huggingface",
}

// StepSource returns the kind of source that a step brings something from, or mints a credential for, and the
// argument that names the source; empty: the step does neither.
func StepSource(kind string, with map[string]StepValue) (source, argument string) {
	if kind == "credential.mint" {
		of, _ := with["type"].Literal.(string)
		return sourceOf[of], "scope"
	}
	if from, literal := with["from"].Literal.(string); literal {
		return sourceOf[from], "source"
	}
	return sourceOf[kind], "source"
}
