package condition

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// Codes of Check.
const (
	CodeSyntax      = "operation_condition_syntax"       // no expression of CEL, or one that is too large
	CodeUnknownName = "operation_condition_unknown_name" // a variable or function that there is not
	CodeType        = "operation_condition_type"         // values that do not fit, or a result that is no bool
)

// Bounds of an expression.
const (
	maxNesting = 24     // of parentheses and calls
	maxParts   = 500    // with what macros make
	maxLoops   = 2      // a macro such as exists within another
	maxRegex   = 500    // instructions of a regular expression
	maxCost    = 20_000 // in units of CEL
	maxErrors  = 3      // that the parser goes on after
	checkEvery = 100    // turns of a loop between two looks at the context
	maxCache   = 1000   // expressions that a Judge keeps ready
)

// variable is a fact under the name that expressions use.
type variable struct {
	name  string
	kind  *cel.Type
	value func(f broker.OperationFacts) any
}

var variables = []variable{
	{"operation", cel.StringType, func(f broker.OperationFacts) any { return f.Operation }},
	{"version", cel.StringType, func(f broker.OperationFacts) any { return f.Version }},
	{"backend", cel.StringType, func(f broker.OperationFacts) any { return f.Backend }},
	{"trigger", cel.StringType, func(f broker.OperationFacts) any { return f.Trigger }},
	{"target_kind", cel.StringType, func(f broker.OperationFacts) any { return f.TargetKind }},
	{"node_count", cel.IntType, func(f broker.OperationFacts) any { return f.NodeCount }},
	{"site", cel.StringType, func(f broker.OperationFacts) any { return f.Site }},
	{"sku", cel.StringType, func(f broker.OperationFacts) any { return f.SKU }},
	{"labels", cel.MapType(cel.StringType, cel.StringType), func(f broker.OperationFacts) any { return f.Labels }},
	{"artifact_sources", cel.ListType(cel.StringType), func(f broker.OperationFacts) any { return f.ArtifactSources }},
	{"hour", cel.IntType, func(f broker.OperationFacts) any { return f.Hour }},
	{"minute", cel.IntType, func(f broker.OperationFacts) any { return f.Minute }},
}

// names lists the variables for a message.
func names() string {
	var all []string
	for _, v := range variables {
		all = append(all, v.name)
	}
	return strings.Join(all, ", ")
}

// environment is what an expression is read against.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.ParserRecursionLimit(maxNesting), cel.ParserErrorRecoveryLimit(maxErrors), cel.ExpressionNodeLimit(maxParts),
		cel.ASTValidators(regexes{}, cel.ValidateComprehensionNestingLimit(maxLoops)),
	}
	for _, v := range variables {
		options = append(options, cel.Variable(v.name, v.kind))
	}
	return cel.NewEnv(options...)
})

// Check refuses conditions that no Judge could judge. The error names condition, line and column. Codes:
// CodeSyntax, CodeUnknownName, CodeType.
func Check(all []broker.OperationCondition) error {
	for _, c := range all {
		if _, err := compile(c); err != nil {
			return err
		}
	}
	return nil
}

// compile makes a program of a condition. Codes: those of Check.
func compile(c broker.OperationCondition, more ...cel.ProgramOption) (cel.Program, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Parse(c.Expression)
	if issues.Err() != nil {
		return nil, refusal(c, CodeSyntax, issues)
	}
	ast, issues = env.Check(ast)
	if issues.Err() != nil {
		return nil, refusal(c, CodeType, issues)
	}
	if got := ast.OutputType(); !got.IsExactType(cel.BoolType) {
		return nil, broker.Errorf(broker.Invalid, CodeType, "condition %s has the result %s, and a condition must be true or false",
			c.Name, taskcatalog.Clean(got.String(), 60))
	}
	options := []cel.ProgramOption{cel.CostLimit(maxCost), cel.InterruptCheckFrequency(checkEvery), cel.EvalOptions(cel.OptOptimize)}
	program, err := env.Program(ast, append(options, more...)...)
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, CodeSyntax, "condition %s: %s", c.Name, taskcatalog.Clean(err.Error(), 200))
	}
	return program, nil
}

// refusal tells the first thing that is wrong.
func refusal(c broker.OperationCondition, code string, issues *cel.Issues) error {
	first := issues.Errors()[0]
	what, hint := first.Message, ""
	if name, unknown := strings.CutPrefix(what, "undeclared reference to "); unknown {
		name, _, _ = strings.Cut(name, " (in container")
		code, what, hint = CodeUnknownName, "there is nothing with the name "+name, " (the variables are "+names()+")"
	}
	what = taskcatalog.Clean(what, 200) + hint
	if first.Location.Line() < 1 { // of the whole expression
		return broker.Errorf(broker.Invalid, CodeSyntax, "condition %s: %s", c.Name, what)
	}
	return broker.Errorf(broker.Invalid, code, "condition %s, line %d, column %d: %s", c.Name, first.Location.Line(),
		first.Location.Column()+1, what)
}

// Judge judges conditions. The zero value is ready.
type Judge struct {
	mu       sync.Mutex
	programs map[string]cel.Program // by expression
}

// Holds says whether a condition is true of an execution. The error says why nobody knows, without a word of
// the facts: its reader need not be the condition's author.
func (j *Judge) Holds(ctx context.Context, c broker.OperationCondition, facts broker.OperationFacts) (bool, error) {
	program, err := j.program(c)
	if err != nil {
		return false, errors.New("it cannot be read by this release of the broker")
	}
	values := map[string]any{}
	for _, v := range variables {
		values[v.name] = v.value(facts)
	}
	out, _, err := program.ContextEval(ctx, values)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil && strings.Contains(err.Error(), "cost limit exceeded"):
		return false, errors.New("it costs too much")
	case err != nil:
		return false, errors.New("it fails, such as for a label that is missing")
	}
	yes, isBool := out.Value().(bool)
	if !isBool {
		return false, errors.New("its result is neither true nor false")
	}
	return yes, nil
}

// program returns the program of a condition, which is made once as long as there is room.
func (j *Judge) program(c broker.OperationCondition) (cel.Program, error) {
	j.mu.Lock()
	p := j.programs[c.Expression]
	j.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := compile(c)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.programs == nil || len(j.programs) >= maxCache {
		j.programs = map[string]cel.Program{}
	}
	j.programs[c.Expression] = p
	return p, nil
}
