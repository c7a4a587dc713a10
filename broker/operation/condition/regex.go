package condition

import (
	"regexp/syntax"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
)

// regexes refuses a call of matches whose regular expression is no literal, is invalid, or is large. Its
// size is of the program that the regular expression becomes: CEL's cost counts its characters, of which
// a{900} has few. The limit of cel-go itself (v0.31.0) panics at a counted repetition.
type regexes struct{}

// Name implements cel.ASTValidator.
func (regexes) Name() string { return "hostler.regexes" }

// Validate implements cel.ASTValidator.
func (regexes) Validate(_ *cel.Env, _ cel.ValidatorConfig, a *ast.AST, issues *cel.Issues) {
	for _, call := range ast.MatchDescendants(ast.NavigateAST(a), ast.FunctionMatcher("matches")) {
		args := call.AsCall().Args()
		pattern := args[len(args)-1]
		text, literal := "", pattern.Kind() == ast.LiteralKind
		if literal {
			text, literal = pattern.AsLiteral().Value().(string)
		}
		if !literal {
			issues.ReportErrorAtID(pattern.ID(), "a regular expression must be a literal text")
			continue
		}
		switch size, err := regexSize(text); {
		case err != nil:
			issues.ReportErrorAtID(pattern.ID(), "the regular expression is invalid: %v", err)
		case size > maxRegex:
			issues.ReportErrorAtID(pattern.ID(), "the regular expression is too large (%d instructions, at most %d)", size, maxRegex)
		}
	}
}

func regexSize(text string) (int, error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return 0, err
	}
	return len(program.Inst), nil
}
