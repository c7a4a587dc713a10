package taskcatalog

import "fmt"

// ProfileProblem is one thing that is wrong with a set of resolver profiles, in
// itself or on this machine.
type ProfileProblem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// String is the problem as compilers write theirs: file:line: code: message.
func (p ProfileProblem) String() string {
	switch {
	case p.File == "":
		return fmt.Sprintf("%s: %s", p.Code, p.Message)
	case p.Line == 0:
		return fmt.Sprintf("%s: %s: %s", p.File, p.Code, p.Message)
	}
	return fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Code, p.Message)
}

// ProfileVersion is one version of the resolver profiles that a node keeps.
type ProfileVersion struct {
	Version string `json:"version"`
	Digest  string `json:"digest"` // sha256:… of the set's canonical JSON
}
