package profiles

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// Problem is one fault of a set.
type Problem = taskcatalog.ProfileProblem

// Faults of a set on any machine.
const (
	CodeTooLarge          taskcatalog.Code = "too_large"
	CodeTooDeep           taskcatalog.Code = "too_deep"
	CodeNotYAML           taskcatalog.Code = "not_yaml"
	CodeNotPlain          taskcatalog.Code = "not_plain_yaml" // an anchor, alias, tag, merge or second document
	CodeNoFiles           taskcatalog.Code = "no_files"
	CodeTooMany           taskcatalog.Code = "too_many"
	CodeWrongType         taskcatalog.Code = "wrong_type"
	CodeUnknownKey        taskcatalog.Code = "unknown_key"
	CodeDuplicateKey      taskcatalog.Code = "duplicate_key"
	CodeMissingKey        taskcatalog.Code = "missing_key"
	CodeBadName           taskcatalog.Code = "bad_name"
	CodeDuplicate         taskcatalog.Code = "duplicate_id"
	CodeUnknownStep       taskcatalog.Code = "unknown_step"
	CodeUnknownBuiltin    taskcatalog.Code = "unknown_builtin"
	CodeWrongStep         taskcatalog.Code = "builtin_for_another_step"
	CodeUnknownProfile    taskcatalog.Code = "unknown_profile"
	CodeUnusedProfile     taskcatalog.Code = "unused_profile"
	CodeUnknownMatchKey   taskcatalog.Code = "unknown_match_key"
	CodeUnknownMatchValue taskcatalog.Code = "unknown_match_value"
	CodeUnreachable       taskcatalog.Code = "unreachable_rule"
	CodeFallbackMissing   taskcatalog.Code = "fallback_missing"
	CodeFallbackTwice     taskcatalog.Code = "fallback_duplicate"
	CodeFallbackNotLast   taskcatalog.Code = "fallback_not_last"
	CodeRunsPrograms      taskcatalog.Code = "runs_other_programs"
	CodeNotAbsolute       taskcatalog.Code = "path_not_absolute"
	CodePathRefused       taskcatalog.Code = "path_refused"
	CodeBadArg            taskcatalog.Code = "bad_arg"
	CodeMayBeOption       taskcatalog.Code = "arg_may_be_option"
	CodeStepLacksArg      taskcatalog.Code = "step_lacks_arg"
	CodeEnvRefused        taskcatalog.Code = "env_refused"
	CodeOutOfBounds       taskcatalog.Code = "out_of_bounds"
)

// maxProblems bounds the reported problems of one set.
const maxProblems = 200

// Problems are all faults of a set, in the order of the files.
type Problems []Problem

// Error returns one line: the first problem and the number of further problems.
func (p Problems) Error() string {
	switch len(p) {
	case 0:
		return "no problem"
	case 1:
		return p[0].String()
	}
	return fmt.Sprintf("%s (and %d more)", p[0], len(p)-1)
}

func (p *Problems) add(at place, code taskcatalog.Code, format string, args ...any) {
	if len(*p) < maxProblems {
		*p = append(*p, Problem{File: at.file, Line: at.line, Code: code, Message: taskcatalog.Clean(fmt.Sprintf(format, args...), 400)})
	}
}

func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), strings.Compare(string(a.Code), string(b.Code)))
	})
	return slices.Compact(p)
}

// place is a position in a file.
type place struct {
	file string
	line int
}

// places maps each part of a set to its place: hardware_profiles/0/name.
type places map[string]place

// of returns the place of a part, or of the nearest enclosing part.
func (ps places) of(format string, args ...any) place {
	for part := fmt.Sprintf(format, args...); ; {
		if at, ok := ps[part]; ok {
			return at
		}
		i := strings.LastIndexByte(part, '/')
		if i < 0 {
			return ps[""]
		}
		part = part[:i]
	}
}

// quote makes a value of a file fit for a message.
func quote(s string) string { return `"` + taskcatalog.Clean(s, 80) + `"` }
